"""`mulligan completion`: a completion script for a shell."""

from __future__ import annotations

import argparse

from mulligan.cli.arguments import WITH_VALUE, build_parser, load
from mulligan.cli.command import Result
from mulligan.cli.commands import COMMANDS
from mulligan.cli.context import Context
from mulligan.install.targets import TARGETS
from mulligan.model.checkpoint import KINDS

USAGE = "completion {bash,zsh,fish}"
DESCRIPTION = """\
Print a completion script for your shell: commands, options, and the names and ids of checkpoints.
"""
EXAMPLES = (
    ('eval "$(mulligan completion bash)"', "for this bash session"),
    ('mulligan completion zsh > "${fpath[1]}/_mulligan"', "for zsh, from the next session on"),
    ("mulligan completion fish > ~/.config/fish/completions/mulligan.fish", "for fish"),
)
EXIT_CODES = (0, 2)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the command's own arguments."""
    parser.add_argument("shell", choices=("bash", "zsh", "fish"), metavar="SHELL", help="bash, zsh or fish")


def run(_context: Context, args: argparse.Namespace) -> Result:
    """Makes the script."""
    text = script(args.shell)
    return Result(text, lambda: {"shell": args.shell, "script": text})


def render(context: Context, result: Result) -> None:
    """Prints the script."""
    context.out.stream.write(result.value)


TAKES_REFS = ("show", "diff", "restore", "cat", "rm")
GLOBAL_OPTIONS = ("-C", "--store", "--json", "--wait", "--color", "--no-pager", "--version", "--help")

_BASH = """\
# bash completion for mulligan; put it where your shell looks, or:  eval "$(mulligan completion bash)"
_mulligan() {
    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} command= after= i word options= IFS=$'\\n'
    local -a where=()
    for ((i = 1; i < COMP_CWORD; i++)); do
        word=${COMP_WORDS[i]}
        case $word in
            -C|--store) where+=("$word" "${COMP_WORDS[i+1]}"); ((i++)) ;;
            --wait | --color) ((i++)) ;;
            --) [[ -n $command ]] && after=1 ;;
            -*) ;;
            *) [[ -z $command ]] && command=$word ;;
        esac
    done
    COMPREPLY=()
    case $prev in
        -C|--store) COMPREPLY=($(compgen -d -- "$cur")); return ;;
        --kind) COMPREPLY=($(compgen -W $'@KINDS@' -- "$cur")); return ;;
    esac
    if [[ -n $after ]]; then COMPREPLY=($(compgen -f -- "$cur")); return; fi
    case $command in
@CASES@
    esac
    if [[ $cur == -* ]]; then
        IFS=' '; COMPREPLY=($(compgen -W "$options" -- "$cur")); return
    fi
    case $command in
        '') IFS=' '; COMPREPLY=($(compgen -W "@COMMANDS@" -- "$cur")) ;;
        @REFS@)
            local typed=${cur//\\\\/} name
            while read -r name; do
                [[ $name == "$typed"* ]] && COMPREPLY+=("$(printf %q "$name")")
            done < <(mulligan "${where[@]}" __complete 2>/dev/null) ;;
        forget|adopt) COMPREPLY=($(compgen -f -- "$cur")) ;;
        completion) IFS=' '; COMPREPLY=($(compgen -W "bash zsh fish" -- "$cur")) ;;
        install) IFS=' '; COMPREPLY=($(compgen -W "@AGENTS@" -- "$cur")) ;;
    esac
}
complete -F _mulligan mulligan
"""

_ZSH = """\
#compdef mulligan
# zsh completion for mulligan; put it into a directory of $fpath as _mulligan
_mulligan() {
    local -a commands names options where
    local state line at
    commands=(
@COMMANDS@
    )
    _arguments -C \\
        '-C[the workspace]:directory:_files -/' '--store[the store]:directory:_files -/' \\
        '--json[print one JSON document]' '--wait[seconds to wait]:seconds:' \\
        '--color[when to use colour]:when:(auto always never)' '--no-pager[no pager]' \\
        '--version[print the version]' '(-h --help)'{-h,--help}'[show help]' \\
        '1:command:->command' '*::argument:->argument' && return
    if [[ $state == command ]]; then _describe command commands; return; fi
    case $words[1] in
@CASES@
    esac
    if (( ${words[(I)--]} )); then _files; return; fi
    if [[ $PREFIX == -* ]]; then compadd -- $options; return; fi
    case $words[1] in
        @REFS@) names=(${(f)"$(mulligan __complete 2>/dev/null)"}); compadd -- $names ;;
        completion) compadd bash zsh fish ;;
        install) compadd @AGENTS@ ;;
        forget|adopt) _files ;;
    esac
}
if [[ $funcstack[1] == _mulligan ]]; then _mulligan "$@"; else compdef _mulligan mulligan; fi
"""

_FISH = """\
# fish completion for mulligan; save it as ~/.config/fish/completions/mulligan.fish
complete -c mulligan -f
complete -c mulligan -s C -r -a '(__fish_complete_directories)' -d 'the workspace'
complete -c mulligan -l store -r -a '(__fish_complete_directories)' -d 'the store'
complete -c mulligan -l json -d 'print one JSON document'
complete -c mulligan -l wait -x -d 'seconds to wait'
complete -c mulligan -l color -x -a 'auto always never' -d 'when to use colour'
complete -c mulligan -l no-pager -d 'no pager'
complete -c mulligan -s h -l help -d 'show help'
@COMMANDS@
@CASES@
complete -c mulligan -n '__fish_seen_subcommand_from @REFS@' -a '(mulligan __complete 2>/dev/null)'
complete -c mulligan -n '__fish_seen_subcommand_from restore diff log forget adopt' -F
complete -c mulligan -n '__fish_seen_subcommand_from completion' -a 'bash zsh fish'
complete -c mulligan -n '__fish_seen_subcommand_from install' -a '@AGENTS@'
"""


def script(shell: str) -> str:
    """Returns the completion script for one of the shells."""
    template, command, case, between = {
        "bash": (_BASH, "{name}", "        {name}) options='{options}' ;;", " "),
        "zsh": (_ZSH, "        '{name}:{summary}'", "        {name}) options=({options}) ;;", "\n"),
        "fish": (_FISH, "complete -c mulligan -n __fish_use_subcommand -a {name} -d '{summary}'", "{fish}", "\n"),
    }[shell]
    options = {name: options_of(name) for name in COMMANDS}
    cases = [
        case.format(name=name, options=" ".join(words), fish=_fish(name, words)) for name, words in options.items()
    ]
    if shell == "bash":
        cases.append("        '') options='" + " ".join(GLOBAL_OPTIONS) + "' ;;")
    listed = between.join(
        command.format(name=name, summary=row.summary.replace("'", "")) for name, row in COMMANDS.items()
    )
    text = template.replace("@COMMANDS@", listed).replace("@CASES@", "\n".join(line for line in cases if line))
    text = text.replace("@AGENTS@", " ".join(TARGETS)).replace("@KINDS@", "\\n".join(KINDS))
    return text.replace("@REFS@", (" " if shell == "fish" else "|").join(TAKES_REFS))


def options_of(name: str) -> list[str]:
    """Returns every option of a command, the global ones included."""
    parser = build_parser(name, load(name))
    return [option for action in parser._actions for option in action.option_strings]  # noqa: SLF001 - argparse has no public list


def _fish(name: str, options: list[str]) -> str:
    own = [word for word in options if word not in {*WITH_VALUE, "--json", "--no-pager", "-h", "--help"}]
    when = f"complete -c mulligan -n '__fish_seen_subcommand_from {name}'"
    return "\n".join(f"{when} {'-l ' + word[2:] if word.startswith('--') else '-s ' + word[1:]}" for word in own)
