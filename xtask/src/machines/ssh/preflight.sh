# What portbench must know of a machine before it copies anything there; run by the machine's own sh.
# $1 is the work folder. Prints NAME=VALUE lines, and `error=` lines for what cannot be.
LC_ALL=C
export LC_ALL
umask 077
echo "machine=$(uname -m)"
echo "kernel=$(uname -r)"
echo "time=$(date +%s.%N)"
echo "user=$(id -u)"
# Two bytes, read as one number: its high byte comes first or last.
case "$(printf '\001\000' | od -An -tx2 | tr -d ' ')" in
0001) echo "order=little" ;;
0100) echo "order=big" ;;
esac
echo "page=$(getconf PAGESIZE 2>/dev/null)"
echo "libc=$(getconf GNU_LIBC_VERSION 2>/dev/null)"
for tool in tar sha256sum find df mktemp; do
  command -v "$tool" >/dev/null || echo "error=$tool is not installed there"
done
if mkdir -p -- "$1" 2>/dev/null && cd -- "$1" 2>/dev/null; then
  echo "free=$(df -Pk . | tail -n 1 | awk '{print $4}')"
  if probe=$(mktemp ./probe-XXXXXX 2>/dev/null); then
    printf '#!/bin/sh\nexit 0\n' >"$probe" 2>/dev/null && [ -s "$probe" ] || echo "full=yes"
    chmod 700 "$probe"
    "$probe" 2>/dev/null || echo "noexec=yes"
    rm -f "$probe"
  elif [ -w . ]; then
    echo "full=yes"
  else
    echo "error=nothing may be written in $1"
  fi
else
  echo "error=$1 cannot be made"
fi
# What the first CPU says is enough; there may be hundreds.
head -n 64 /proc/cpuinfo | sed 's/^/cpuinfo=/'
