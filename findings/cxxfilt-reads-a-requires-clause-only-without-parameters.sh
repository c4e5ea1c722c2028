#!/bin/sh
# Whether GNU c++filt can read the name of a constrained C++20 function depends on whether it prints parameters.
#
# GCC 14 and later write the requires-clause of a class template's member behind its parameters (`Q3NumIT_E`). Without parameters
# (`-p`, the form that perf shows) c++filt reads such a name. With parameters (`nm -C`) the same name stays mangled. So two tools that
# share one demangler show one function under two names. A constrained template argument (`Tk3Num`, `template <Num T>`) is read in no
# form.
#
# Seen with binutils 2.40 (Debian 12) on x86-64; binutils 2.47.50 behaves the same for the three names. There a clause in the template's
# head, `_Z5twiceIiQ3NumIT_EES0_S0_`, is the opposite case: read with parameters only.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
pool=http://deb.debian.org/debian/pool/main/b/binutils
for package in binutils-x86-64-linux-gnu libbinutils; do
    curl -sSfO "$pool/${package}_2.40-2_amd64.deb"
    dpkg-deb -x "${package}_2.40-2_amd64.deb" root
done
export LD_LIBRARY_PATH=$folder/root/usr/lib/x86_64-linux-gnu
filter=$folder/root/usr/bin/x86_64-linux-gnu-c++filt
"$filter" --version | head -n 1

# By GCC 16.2: Box<int>::get() requires Num<int>; a member of a template that is constrained; template <Num T> T thrice(T).
check() {
    short=$("$filter" -p "$1")
    long=$("$filter" "$1")
    printf '%-28s without parameters: %-28s with: %s\n' "$1" "$short" "$long"
    [ "$short" = "$2" ] && [ "$long" = "$3" ]
}
check _ZNK3BoxIiE3getEvQ3NumIT_E 'Box<int>::get' _ZNK3BoxIiE3getEvQ3NumIT_E
check _ZN1SIiE1kEvQ5SmallIT_E 'S<int>::k' _ZN1SIiE1kEvQ5SmallIT_E
check _Z6thriceITk3NumiET_S0_ _Z6thriceITk3NumiET_S0_ _Z6thriceITk3NumiET_S0_
# The same members without the clause, as older compilers name them.
check _ZNK3BoxIiE3getEv 'Box<int>::get' 'Box<int>::get() const'
echo "as described"
