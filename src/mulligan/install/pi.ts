// Written by mulligan install pi; taken away by mulligan install pi --uninstall.
// Tells mulligan of each prompt and each tool call. Nothing that goes wrong here stops a tool.
import { spawn } from "node:child_process"

const PROGRAM: string[] = __PROGRAM__
// They change nothing, so there is nothing to tell.
const READING = new Set(["read", "grep", "find", "ls"])

function tell(payload: object, ctx: any): Promise<void> {
  return new Promise((done) => {
    let said = ""
    const end = (message: string) => {
      if (message && ctx?.hasUI) ctx.ui.notify(message, "warning")
      done()
    }
    const gone = (error: Error) =>
      end(`mulligan was uninstalled (${error.message}), so this session has no undo. Reinstall it, or remove the extension mulligan.ts of pi.`)
    try {
      const child = spawn(PROGRAM[0], [...PROGRAM.slice(1), "hook", "pi"], { cwd: ctx.cwd, stdio: ["pipe", "pipe", "ignore"] })
      const late = setTimeout(() => child.kill("SIGTERM"), 30000)
      child.on("error", (error) => {
        clearTimeout(late)
        gone(error)
      })
      child.stdout.on("data", (data) => (said += data))
      child.on("close", () => {
        clearTimeout(late)
        try {
          end(said.trim() ? JSON.parse(said).systemMessage || "" : "")
        } catch {
          end("")
        }
      })
      child.stdin.on("error", () => {})
      child.stdin.end(JSON.stringify({ ...payload, session_id: ctx.sessionManager?.getSessionId?.() || "pi", cwd: ctx.cwd }))
    } catch (error: any) {
      gone(error)
    }
  })
}

export default function (pi: any) {
  pi.on("session_start", (_event: any, ctx: any) => tell({ event: "session" }, ctx))
  pi.on("before_agent_start", (event: any, ctx: any) => tell({ event: "prompt", prompt: event.prompt }, ctx))
  pi.on("tool_call", (event: any, ctx: any) =>
    READING.has(event.toolName) ? undefined : tell({ event: "before", callID: event.toolCallId, tool_name: event.toolName, tool_input: event.input }, ctx))
  pi.on("tool_result", (event: any, ctx: any) =>
    READING.has(event.toolName)
      ? undefined
      : tell({ event: event.isError ? "failed" : "after", callID: event.toolCallId, tool_name: event.toolName, tool_input: event.input }, ctx))
  pi.on("agent_end", (_event: any, ctx: any) => tell({ event: "stop" }, ctx))
}
