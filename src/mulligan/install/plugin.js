// Written by mulligan install __AGENT__; taken away by mulligan install __AGENT__ --uninstall.
// Tells mulligan of each prompt and each tool call. Nothing that goes wrong here stops a tool.
import { spawn } from "node:child_process"

const PROGRAM = __PROGRAM__
// They change nothing, so there is nothing to tell.
const READING = new Set(["read", "list", "glob", "grep", "webfetch", "websearch", "todoread", "todowrite"])

function tell(payload, directory) {
  return new Promise((done) => {
    let said = ""
    let child
    try {
      child = spawn(PROGRAM[0], [...PROGRAM.slice(1), "hook", "__AGENT__"], { cwd: directory, stdio: ["pipe", "pipe", "ignore"] })
    } catch (error) {
      return done({ systemMessage: `mulligan was uninstalled (${error.message}), so this session has no undo. Reinstall it, or remove the plugin mulligan.js of __AGENT__.` })
    }
    const late = setTimeout(() => child.kill("SIGTERM"), 30000)
    child.on("error", (error) => {
      clearTimeout(late)
      done({ systemMessage: `mulligan was uninstalled (${error.message}), so this session has no undo. Reinstall it, or remove the plugin mulligan.js of __AGENT__.` })
    })
    child.stdout.on("data", (data) => (said += data))
    child.on("close", () => {
      clearTimeout(late)
      try {
        done(said.trim() ? JSON.parse(said) : {})
      } catch {
        done({})
      }
    })
    child.stdin.on("error", () => {})
    child.stdin.end(JSON.stringify({ ...payload, cwd: directory }))
  })
}

export const Mulligan = async ({ client, directory }) => {
  const show = async (answer) => {
    const message = answer.systemMessage || answer.hookSpecificOutput?.permissionDecisionReason
    if (message) await client.tui.showToast({ body: { message, variant: "warning" } }).catch(() => {})
  }
  const words = (parts) => (parts || []).filter((part) => part.type === "text").map((part) => part.text).join("\n")
  // A subagent has a session of its own, below the one that it works for: what it does belongs to that one.
  const roots = new Map()
  const rootOf = async (id) => {
    if (!id || roots.has(id)) return roots.get(id) || ""
    const found = await client.session.get({ path: { id } }).catch(() => undefined)
    const root = found?.data?.parentID ? await rootOf(found.data.parentID) : id
    if (found?.data) roots.set(id, root)
    return root
  }
  const call = async (input, args) => {
    const session_id = await rootOf(input.sessionID)
    const agent_id = session_id === input.sessionID ? "" : input.sessionID
    return { session_id, agent_id, callID: input.callID, tool_name: input.tool, tool_input: args }
  }
  return {
    event: async ({ event }) => {
      if (event.type !== "session.created" && event.type !== "session.idle") return
      const session_id = event.properties?.sessionID || event.properties?.info?.id || ""
      if (event.properties?.info?.parentID || (await rootOf(session_id)) !== session_id) return
      await show(await tell({ event: event.type === "session.created" ? "session" : "stop", session_id }, directory))
    },
    "chat.message": async (input, output) => {
      if ((await rootOf(input.sessionID)) !== input.sessionID) return
      const prompt = words(output.parts)
      await show(await tell({ event: "prompt", session_id: input.sessionID, messageID: output.message?.id, prompt }, directory))
    },
    "tool.execute.before": async (input, output) => {
      if (READING.has(input.tool)) return
      await show(await tell({ event: "before", ...(await call(input, output.args)) }, directory))
    },
    "tool.execute.after": async (input) => {
      if (READING.has(input.tool)) return
      await show(await tell({ event: "after", ...(await call(input, input.args)) }, directory))
    },
  }
}
