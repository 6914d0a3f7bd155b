# Completions of knee for fish: it asks the knee of the line what can stand there.
function __knee_complete
    set -l words (commandline -opc)
    set -l current (commandline -ct)
    set -l knee $words[1]
    set -e words[1]
    set -l found ($knee complete -- $words "$current" 2> /dev/null)
    set -l code $status
    # Fish puts no blank behind what goes on, as it ends with = : or /.
    for line in $found
        string replace -r '\t\+?$' '' -- $line
    end
    test $code = 1; and __fish_complete_path "$current"
end
complete -c knee -f -k -a '(__knee_complete)'
