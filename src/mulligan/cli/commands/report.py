"""`mulligan report`: what really happened, to hand over."""

from __future__ import annotations

import argparse
import os
from typing import Any, NamedTuple

from mulligan.cli.arguments import UsageError
from mulligan.cli.command import Result
from mulligan.cli.context import Context
from mulligan.cli.signing import find_key, sign, verify
from mulligan.errors import UserError
from mulligan.history.report import chain_problems, digest
from mulligan.present.report import PROVES, report_lines, report_markdown
from mulligan.present.report_file import DATA, ReportFile, as_file, read_report, statement_of
from mulligan.present.report_html import report_html
from mulligan.present.text import count
from mulligan.present.visible import visible

USAGE = "report [SESSION] [--html F] [--md F] [--sign [KEY]] | report --verify F --signers FILE"
DESCRIPTION = """\
Report what agents did: prompts, commands, every path that changed, what was not saved, undos and restores.

Paths that no tool named are marked. --sign signs the report and the chain of its checkpoints with your ssh key. --verify
finds what was changed, cut off or reordered since; FILE is an allowed signers file of ssh-keygen.
"""
EXAMPLES = (
    ("mulligan report --html report.html", "one file, to hand over"),
    ("mulligan report 1bd24cd5 --md report.md --sign", "one session, signed with your ssh key"),
    ("mulligan report --verify report.html --signers allowed_signers", "is it what was signed, and by which person?"),
)
EXIT_CODES = (0, 1, 3, 10, 90)


class Verification(NamedTuple):
    """What became of a verification: the key and its name, what is wrong, and how many checkpoints stand here."""

    file: str
    key: str
    name: str
    problems: list[str]
    here: str


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the command's own arguments."""
    parser.add_argument("session", nargs="?", metavar="SESSION", help="only this session, or the start of its id")
    parser.add_argument("--html", metavar="F", help="write one self-contained page")
    parser.add_argument("--md", metavar="F", help="write Markdown")
    parser.add_argument("--sign", nargs="?", const="", metavar="KEY", help="sign with an ssh key (~/.ssh/id_ed25519 …)")
    parser.add_argument("--verify", metavar="F", help="check a report that was written or printed with --json")
    parser.add_argument("--signers", metavar="FILE", help="with --verify: whose keys are trusted")


def run(context: Context, args: argparse.Namespace) -> Result:
    """Makes a report, or verifies one."""
    if args.verify is not None:
        if args.session or args.html or args.md or args.sign is not None:
            raise UsageError("--verify takes a file and --signers, and nothing else.")
        verdict = _verified(context, args)
        trusted = verdict.name and not verdict.problems
        code = 1 if verdict.problems else 0 if trusted else 3
        return Result(verdict, lambda: {"verified": bool(trusted), **verdict._asdict()}, code)
    if args.signers is not None:
        raise UsageError("--signers belongs to --verify.", hint="mulligan report --verify F --signers FILE")
    document = context.saved.report(args.session).to_dict()
    key = _key(context, args.sign) if args.sign is not None else ""
    written = [
        _write(context, document, form, path, key) for form, path in (("html", args.html), ("md", args.md)) if path
    ]
    if context.json:
        sealed = _sealed(document, "", key)
        return Result(
            None, lambda: {"report": document, "statement": sealed.statement, "signature": sealed.signature or None}
        )
    if key and not written:
        raise UsageError(
            "--sign needs a file or --json: a signature is part of it.", hint="mulligan report --html F --sign"
        )
    return Result((document, written, bool(key)), dict)


def _key(context: Context, given: str) -> str:
    return find_key(given and os.path.join(context.base, given), context.environ)


def _sealed(document: dict[str, Any], page: str, key: str) -> ReportFile:
    statement = statement_of(document, page, digest)
    if not key:
        return ReportFile(document, statement, "", page)
    return ReportFile(document, statement, sign(statement, key), page)


def _write(context: Context, document: dict[str, Any], form: str, path: str, key: str) -> str:
    page = report_html(document) if form == "html" else f"{report_markdown(document)}\n{DATA}\n"
    text = as_file(_sealed(document, page, key), form)
    full = os.path.join(context.base, path)
    try:
        with open(full, "w", encoding="utf-8", errors="surrogatepass") as file:
            file.write(text)
    except OSError as error:
        raise UserError(f"{path} could not be written ({error.strerror}).") from None
    return path


def _verified(context: Context, args: argparse.Namespace) -> Verification:
    """Reads a report and compares everything in it with what was signed."""
    try:
        with open(os.path.join(context.base, args.verify), encoding="utf-8", errors="surrogatepass") as file:
            found = read_report(file.read())
    except (OSError, UnicodeError) as error:
        raise UserError(f"{args.verify} cannot be read ({error}).") from None
    if found is None:
        raise UserError(f"{args.verify} is not a report of mulligan, or its data was cut off.")
    problems = _problems(found)
    key = name = ""
    if not found.signature:
        problems.append("The report is not signed: its maker could be any person or program.")
    elif not problems:
        signers = os.path.join(context.base, args.signers) if args.signers else ""
        if signers and not os.path.isfile(signers):
            raise UserError(f"{args.signers} is not a file.", hint="One line for each: NAME ssh-ed25519 AAAA…")
        try:
            key, name = verify(found.statement, found.signature, signers)
        except UserError as error:
            problems.append(error.message)
        if signers and key and not name:
            problems.append(f"The key {key} is not in {args.signers}.")
    return Verification(args.verify, key, name, problems, _here(context, found.document))


def _problems(found: ReportFile) -> list[str]:
    try:
        problems = chain_problems(found.document["chain"])
        if statement_of(found.document, found.page, digest) == found.statement:
            return problems
        said = dict(row.split(" ", 1) for row in found.statement.splitlines()[1:] if " " in row)
        now = dict(row.split(" ", 1) for row in statement_of(found.document, found.page, digest).splitlines()[1:])
    except (KeyError, TypeError, ValueError):
        return ["The report is not complete."]
    words = {
        "document": "The data of the report were changed.",
        "page": "The text of the page was changed.",
        "checkpoints": "The number of checkpoints is not the one that was signed.",
        "head": "The chain of checkpoints is not the one that was signed.",
    }
    return [*problems, *(text for key, text in words.items() if said.get(key) != now[key])] or [
        "The statement was changed."
    ]


def _here(context: Context, document: dict[str, Any]) -> str:
    """Returns how many of the checkpoints this workspace holds, in words; nothing where it holds none."""
    known = {each.id: each.commit for each in context.workspace.log()}
    links = document["chain"]["links"]
    same = sum(known.get(row.get("id")) == row.get("commit") for row in links)
    other = sum(row.get("id") in known for row in links) - same
    if not same and not other:
        return ""
    changed = f", {other:,} with other contents since" if other else ""
    return f"{same:,} of {count(len(links), 'checkpoint')} stand in this workspace{changed}"


def render(context: Context, result: Result) -> None:
    """Prints the report, or what was written or verified."""
    out, value = context.out, result.value
    if isinstance(value, Verification):
        _tell(context, value)
        return
    document, written, signed = value
    if not written:
        out.lines(report_lines(document, style=out.style, width=out.width))
        return
    sums = document["totals"]
    about = f"{count(sums['prompts'], 'prompt')}, {count(sums['commands'], 'command')}, {count(sums['files'], 'file')} changed"
    for path in written:
        out.line(f"{out.style('green', 'wrote')} {visible(path)}: {about}{', signed' if signed else ''}")
    if signed:
        out.line(f"Verify it: mulligan report --verify {visible(written[0])} --signers FILE")


def _tell(context: Context, verdict: Verification) -> None:
    out = context.out
    if verdict.problems:
        out.line(out.style("red", f"{visible(verdict.file)} is NOT verified:"))
        out.lines([f"  {visible(problem)}" for problem in verdict.problems])
    elif verdict.name:
        out.line(
            out.style(
                "green", f"{visible(verdict.file)} is as {visible(verdict.name)} signed it ({visible(verdict.key)})."
            )
        )
    else:
        out.line(
            f"{visible(verdict.file)} is as the key {visible(verdict.key)} signed it. Whose key that is was not checked: --signers FILE"
        )
    out.lines([f"{verdict.here}."] if verdict.here else [])
    if not verdict.problems:
        out.lines([out.style("dim", sentence) for sentence in PROVES])
