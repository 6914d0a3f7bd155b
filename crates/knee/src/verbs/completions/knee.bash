# Completions of knee for bash: it asks the knee of the line what can stand there.
_knee() {
    local knee=$1 found status
    [[ $knee == "~/"* ]] && knee=$HOME/${knee#"~/"}
    found=$("$knee" complete --line="${COMP_LINE:0:COMP_POINT}" --word="$2" 2> /dev/null)
    status=$?
    COMPREPLY=()
    [[ -n $found ]] && mapfile -t COMPREPLY <<< "$found"
    # A tab stands behind what goes on.
    [[ ${#COMPREPLY[@]} == 1 && ${COMPREPLY[0]} == *$'\t' ]] && compopt -o nospace
    COMPREPLY=("${COMPREPLY[@]%$'\t'}")
    [[ $status == 1 ]] && compopt -o default
    return 0
}
complete -o nosort -F _knee knee
