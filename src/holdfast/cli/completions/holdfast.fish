# fish completion for holdfast: holdfast completion fish > ~/.config/fish/completions/holdfast.fish
function __holdfast_candidates
    set -l words (commandline -opc) (commandline -ct)
    set -l lines (string join0 -- $words[2..-1] | command holdfast completion fish --candidates 2> /dev/null)
    set -l current (commandline -ct)
    set -l start (string match -r -- '^-[^=]*=' $current)
    switch "$lines[1]"
        case files
            printf '%s\n' "$start"(__fish_complete_path (string replace -- "$start" '' $current))
        case folders
            printf '%s\n' "$start"(__fish_complete_directories (string replace -- "$start" '' $current) '')
    end
    test (count $lines) -gt 1; and printf '%s\n' $lines[2..-1]
end
complete -c holdfast -f -k -a '(__holdfast_candidates)'
