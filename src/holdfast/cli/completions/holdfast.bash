# bash completion for holdfast: eval "$(holdfast completion bash)"
_holdfast() {
    local kind word IFS=$'\n'
    COMPREPLY=()
    while read -r word; do
        if [[ -z ${kind-} ]]; then kind=$word; else COMPREPLY+=("$word"); fi
    done < <(printf '%s\0' "$COMP_WORDBREAKS" "${COMP_LINE:0:COMP_POINT}" |
        command holdfast completion bash --candidates 2> /dev/null)
    case ${kind-} in
        files) compopt -o default ;;
        folders) compopt -o dirnames -o filenames ;;
    esac
}
complete -F _holdfast holdfast
