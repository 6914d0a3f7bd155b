#!/bin/sh
# Installs knee from the folder of this script, and removes it again.
#
#   ./install.sh                          below /usr/local as root, else below ~/.local
#   ./install.sh --prefix ~/tools         anywhere
#   ./install.sh --prefix ~/tools --uninstall
#
# What was installed is listed in PREFIX/share/doc/knee/INSTALLED. Records are yours, and stay.
set -eu
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
if [ "$(id -u)" = 0 ]; then prefix=/usr/local; else prefix=${HOME:-}/.local; fi
action=install
while [ $# -gt 0 ]; do
    case $1 in
    --prefix)
        [ $# -ge 2 ] || { echo "install.sh: --prefix takes a folder" >&2; exit 2; }
        prefix=$2
        shift
        ;;
    --prefix=*) prefix=${1#--prefix=} ;;
    --uninstall) action=uninstall ;;
    -h | --help)
        sed -n '2,8s/^# \{0,1\}//p' "$0"
        exit 0
        ;;
    *)
        echo "install.sh: $1 is no option of this script: --prefix DIR, --uninstall" >&2
        exit 2
        ;;
    esac
    shift
done
list=share/doc/knee/INSTALLED

# Removes what a list names, and folders that are empty then.
remove() {
    while read -r path; do
        case $path in '' | /* | *..*) continue ;; esac
        rm -f -- "$prefix/$path"
        folder=$(dirname -- "$path")
        while [ "$folder" != . ] && rmdir -- "$prefix/$folder" 2> /dev/null; do
            folder=$(dirname -- "$folder")
        done
    done < "$1"
}

if [ "$action" = uninstall ]; then
    if [ ! -e "$prefix/$list" ]; then
        echo "install.sh: nothing to remove: there is no $prefix/$list; --prefix names the folder of the installation" >&2
        exit 2
    fi
    # The list itself is in it.
    copy=$(mktemp)
    trap 'rm -f "$copy"' EXIT
    cp "$prefix/$list" "$copy"
    remove "$copy"
    echo "removed knee below $prefix; records stay (knee's own are in ~/.local/share/knee)"
    exit 0
fi

mkdir -p -- "$prefix" 2> /dev/null && [ -w "$prefix" ] || {
    echo "install.sh: $prefix cannot be written: run as root, or choose a folder with --prefix" >&2
    exit 2
}
installed=$(mktemp)
gone=$(mktemp)
trap 'rm -f "$installed" "$gone"' EXIT
{ (cd "$here" && find bin share -type f | LC_ALL=C sort); echo "$list"; } > "$installed"
# What an older version had and this one has not.
[ ! -e "$prefix/$list" ] || grep -vxFf "$installed" "$prefix/$list" > "$gone" || true
while read -r path; do
    [ "$path" = "$list" ] && continue
    mkdir -p -- "$prefix/$(dirname -- "$path")"
    # A program that runs keeps its file.
    rm -f -- "$prefix/$path"
    cp -- "$here/$path" "$prefix/$path"
done < "$installed"
mkdir -p -- "$(dirname -- "$prefix/$list")"
cp -- "$installed" "$prefix/$list"
remove "$gone"
echo "installed $("$prefix/bin/knee" --version) in $prefix/bin/knee"
case ":$PATH:" in
*":$prefix/bin:"*) echo "next: knee doctor, then knee run first-look" ;;
*) echo "next: add $prefix/bin to PATH, then knee doctor and knee run first-look" ;;
esac
