#compdef holdfast
# zsh completion for holdfast: eval "$(holdfast completion zsh)" after compinit, or as _holdfast in a folder of $fpath
_holdfast() {
    local -a lines
    lines=("${(@f)$(print -rN -- "${(@Q)words[2,CURRENT-1]}" "${(Q)PREFIX}" |
        command holdfast completion zsh --candidates 2> /dev/null)}")
    local kind=$lines[1]
    shift lines
    if [[ $kind != words ]]; then
        [[ $PREFIX == -*=* ]] && compset -P '*='
        if [[ $kind == folders ]]; then _files -/; else _files; fi
    fi
    (( $#lines )) && _describe holdfast lines
}
if [[ $funcstack[1] == _holdfast ]]; then _holdfast "$@"; else compdef _holdfast holdfast; fi
