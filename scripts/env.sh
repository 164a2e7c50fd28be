# shellcheck shell=bash
# Sourced by scripts/{test,demo,bench,sandbox}: installs missing packages and the Python environment of this checkout.
#
#   . "$(dirname "$0")/env.sh"
#   holdfast_packages tests        # installs packages of the machine with apt
#   holdfast_python                # sets $PYTHON to .venv/bin/python with everything in requirements.lock
#   holdfast_as_root MODULE "$@"   # runs that program of scripts/, which needs root
#
# Safe to repeat and to call from two shells at once; does nothing when the lock file has not changed.

HOLDFAST_TOP=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
PYTHON=$HOLDFAST_TOP/.venv/bin/python
# Others read the installed files: the users of a box, tests that run as nobody.
umask 022

say() { printf '%s\n' "$*" >&2; }
die() { say "$*"; exit 2; }

# Requirements of the commands beyond a minimal Debian or Ubuntu: WHAT=PACKAGE, where WHAT is a command, several commands of
# which one is enough, or a file. This is the only such list; holdfast_packages installs missing packages. (mmdebstrap is
# unpacked where it is not installed, and needs all of perl, which includes prove.)
_HOLDFAST_TESTS=("${CC:-cc}|cc|gcc|tcc=gcc" /usr/include/stdio.h=libc6-dev kill=procps pgrep=procps setpriv=util-linux
  unshare=util-linux)
_HOLDFAST_LINT=(git=git shellcheck=shellcheck)
_HOLDFAST_SANDBOX=("${_HOLDFAST_TESTS[@]}" nsenter=util-linux pivot_root=util-linux mount=mount hostname=hostname
  ip=iproute2 'mmdebstrap|prove=perl' /etc/ssl/certs/ca-certificates.crt=ca-certificates
  /usr/share/keyrings/debian-archive-keyring.gpg=debian-archive-keyring)

# holdfast_packages GROUP …: installs the Debian packages of these groups (tests, lint, sandbox), or exits.
holdfast_packages() {
  local group list=()
  for group in "$@"; do
    case $group in
      tests) list+=("${_HOLDFAST_TESTS[@]}") ;;
      lint) list+=("${_HOLDFAST_LINT[@]}") ;;
      sandbox) list+=("${_HOLDFAST_SANDBOX[@]}") ;;
      *) die "holdfast_packages: no group '$group'" ;;
    esac
  done
  holdfast_apt "${list[@]}"
}

# Whether the machine has WHAT of a WHAT=PACKAGE: a file, or one of the commands.
_holdfast_has() {
  local name
  if [ "${1#/}" != "$1" ]; then [ -e "$1" ]; return; fi
  while IFS= read -r name; do
    # PATH may lack /usr/sbin.
    if PATH=$PATH:/usr/sbin:/sbin command -v "$name" >/dev/null 2>&1; then return 0; fi
  done <<<"${1//|/$'\n'}"
  return 1
}

# holdfast_apt WHAT=PACKAGE …: installs the missing packages as root; otherwise lists all of them and exits.
holdfast_apt() {
  local pair missing=()
  for pair in "$@"; do
    if _holdfast_has "${pair%=*}"; then continue; fi
    case " ${missing[*]-} " in *" ${pair##*=} "*) ;; *) missing+=("${pair##*=}") ;; esac
  done
  [ ${#missing[@]} -gt 0 ] || return 0
  if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null 2>&1; then
    die "Missing on this machine: ${missing[*]} (Debian package names). Install them and run this again."
  fi
  say "Installing ${missing[*]} …"
  # A machine that has just started may still be updating itself.
  local output apt=(apt-get -qq -o DPkg::Lock::Timeout=120)
  export DEBIAN_FRONTEND=noninteractive
  if "${apt[@]}" install -y --no-install-recommends "${missing[@]}" >/dev/null 2>&1; then return 0; fi
  output=$({ "${apt[@]}" update && "${apt[@]}" install -y --no-install-recommends "${missing[@]}"; } 2>&1) ||
    die "apt-get cannot install ${missing[*]}: $(grep '^[EW]: ' <<<"$output" | tail -3)"$'\n'"Install them and run this again."
}

# Prints the first interpreter that is new enough; status 1 when there is none.
_holdfast_interpreter() {
  local candidate
  for candidate in ${HOLDFAST_PYTHON:+"$HOLDFAST_PYTHON"} python3 python3.14 python3.13 python3.12 python3.11 python3.10; do
    if "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 10))' 2>/dev/null; then
      command -v "$candidate"
      return
    fi
  done
  return 1
}

# Exits: there is no Python, or an old one.
_holdfast_no_python() {
  local found
  found=$(python3 --version 2>/dev/null) && found="this machine has $found" || found="this machine has none"
  die "Python 3.10 or newer is needed; $found. Install one (apt-get install python3 python3-venv on Debian 12," \
    "Ubuntu 22.04 or newer), or set HOLDFAST_PYTHON to one."
}

# Prints an interpreter for a new .venv. Installs one where the machine has no python3; never beside one that is too old.
_holdfast_new_interpreter() {
  local found
  if ! command -v python3 >/dev/null 2>&1 && ! _holdfast_interpreter >/dev/null; then
    holdfast_apt python3=python3 python3-venv=python3-venv
  fi
  found=$(_holdfast_interpreter) || _holdfast_no_python
  # Debian packages ensurepip, which a venv needs, separately for each version.
  if ! "$found" -c 'import ensurepip, venv' 2>/dev/null; then
    case ${found##*/} in
      python3) holdfast_apt python3-venv=python3-venv ;;
      *) holdfast_apt "${found##*/}-venv=${found##*/}-venv" ;;
    esac
  fi
  printf '%s\n' "$found"
}

# need_root WHAT: exits unless root. Call it before any set-up: the tree may belong to another user.
need_root() {
  [ "$(id -u)" = 0 ] || die "$1 needs root: it creates namespaces and mounts. Try: sudo $1"
}

# Runs the program MODULE of scripts/ as root. Its help needs neither root nor any set-up.
holdfast_as_root() {
  case " $* " in
    *" --help "* | *" -h "*) PYTHON=$(_holdfast_interpreter) || _holdfast_no_python ;;
    *)
      need_root "scripts/${0##*/}"
      holdfast_packages sandbox
      holdfast_python
      ;;
  esac
  export PYTHONPATH=$HOLDFAST_TOP/scripts:$HOLDFAST_TOP
  holdfast_become "$PYTHON" -m "$@"
}

# Executes the command. As process 1 of a container this shell stays its parent: process 1 must reap orphaned processes, a pid
# namespace ends only when all of its processes are reaped, and bash reaps while it waits.
holdfast_become() {
  if [ $$ != 1 ]; then exec "$@"; fi
  "$@"
  exit
}

# The set-up needs write access here; otherwise exits with one line that gives the remedy.
_holdfast_own_tree() {
  { mkdir -p "$HOLDFAST_TOP/.cache" && : >>"$HOLDFAST_TOP/.cache/env.lock"; } 2>/dev/null ||
    die "Cannot write in $HOLDFAST_TOP (it belongs to $(stat -c %U "$HOLDFAST_TOP")), where the Python tools of this" \
      "checkout are installed: run this as that user, or in your own clone."
}

# Creates or updates .venv from requirements.lock; pip verifies every file by hash.
holdfast_python() {
  local want lock="$HOLDFAST_TOP/requirements.lock" stamp="$HOLDFAST_TOP/.venv/.holdfast-lock" found
  # The path counts too: a venv cannot be moved.
  want="$(sha256sum <"$lock" | cut -d' ' -f1) $HOLDFAST_TOP"
  if [ -x "$PYTHON" ] && [ "$(cat "$stamp" 2>/dev/null)" = "$want" ]; then return 0; fi
  _holdfast_own_tree
  (
    flock 9
    if [ -x "$PYTHON" ] && [ "$(cat "$stamp" 2>/dev/null)" = "$want" ]; then exit 0; fi
    found=$(_holdfast_new_interpreter) || exit 2
    say "Installing Python tools in .venv (once, about a minute) …"
    if ! "$PYTHON" -c '' 2>/dev/null || ! grep -qsF "$HOLDFAST_TOP/.venv" "$HOLDFAST_TOP/.venv/bin/pip"; then
      rm -rf "$HOLDFAST_TOP/.venv"
      "$found" -m venv "$HOLDFAST_TOP/.venv" || die "$found -m venv failed; see its message above."
    fi
    "$PYTHON" -m pip install --quiet --disable-pip-version-check --require-hashes -r "$lock" ||
      die "pip could not install requirements.lock; see its message above, then run this again."
    _holdfast_link
    printf '%s\n' "$want" >"$stamp"
  ) 9>"$HOLDFAST_TOP/.cache/env.lock" || exit 2
}

# Makes the checkout importable in .venv, with its `holdfast` command, without a build.
_holdfast_link() {
  local site
  site=$("$PYTHON" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
  printf '%s\n%s\n' "$HOLDFAST_TOP" "$HOLDFAST_TOP/scripts" >"$site/holdfast-checkout.pth"
  _holdfast_command
}

_holdfast_command() {
  # Through sh: the kernel ends the path after '#!' at its first blank.
  # shellcheck disable=SC2016
  printf '#!/bin/sh\n"exec" "%s" "$0" "$@"\nimport sys\n\nfrom holdfast.cli.main import main\n\nsys.exit(main())\n' "$PYTHON" \
    >"$HOLDFAST_TOP/.venv/bin/holdfast"
  chmod +x "$HOLDFAST_TOP/.venv/bin/holdfast"
}
