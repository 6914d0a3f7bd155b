#compdef knee
# Completions of knee for zsh: it asks the knee of the line what can stand there.
_knee() {
    local knee=${(Q)words[1]} found line text about
    local -a whole open
    integer code
    [[ $knee == "~/"* ]] && knee=$HOME/${knee#"~/"}
    found=$("$knee" complete -- "${(@Q)words[2,CURRENT-1]}" "${(Q)PREFIX}" 2> /dev/null)
    code=$?
    for line in "${(@f)found}"; do
        [[ -n $line ]] || continue
        text=${${line%%$'\t'*}//:/\\:} about=${${line#*$'\t'}%$'\t'*}
        # A plus stands behind what goes on.
        if [[ $line == *+ ]]; then open+=("$text:$about"); else whole+=("$text:$about"); fi
    done
    (( $#whole )) && _describe -V knee whole
    (( $#open )) && _describe -V knee open -S ''
    (( code == 1 )) && _files
    (( $#whole || $#open || code == 1 ))
}
if [[ $funcstack[1] == _knee ]]; then _knee "$@"; else compdef _knee knee; fi
