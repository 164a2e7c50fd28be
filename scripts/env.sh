# shellcheck shell=bash
# Sourced by scripts/{test,demo,bench}: makes this checkout's own Python environment, and nothing else.
#
#   . "$(dirname "$0")/env.sh"
#   holdfast_python      # afterwards $PYTHON is .venv/bin/python with everything in requirements.lock
#   holdfast_as_root MODULE "$@"   # becomes that program of scripts/, which needs root
#
# Safe to repeat and to call from two shells at once; does nothing when the lock file did not change.

HOLDFAST_TOP=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
PYTHON=$HOLDFAST_TOP/.venv/bin/python

say() { printf '%s\n' "$*" >&2; }
die() { say "$*"; exit 2; }

# The first interpreter that is new enough, or a clear end.
_holdfast_interpreter() {
  local candidate
  for candidate in ${HOLDFAST_PYTHON:+"$HOLDFAST_PYTHON"} python3 python3.13 python3.12 python3.11 python3.10; do
    if "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 10))' 2>/dev/null; then
      command -v "$candidate"
      return
    fi
  done
  die "Python 3.10 or newer is needed; found $(python3 --version 2>&1 || true)." \
    "Install one, or name it in HOLDFAST_PYTHON."
}

# holdfast_apt COMMAND=PACKAGE …: installs the packages whose command is absent, as root, else says what to install.
holdfast_apt() {
  local pair missing=()
  for pair in "$@"; do
    PATH=$PATH:/usr/sbin:/sbin command -v "${pair%%=*}" >/dev/null 2>&1 || missing+=("${pair#*=}")
  done
  [ ${#missing[@]} -gt 0 ] || return 0
  if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null 2>&1; then
    die "Missing on this machine: ${missing[*]} (Debian package names). Install them and run this again."
  fi
  say "Installing ${missing[*]} …"
  export DEBIAN_FRONTEND=noninteractive
  apt-get -qq install -y --no-install-recommends "${missing[@]}" >/dev/null 2>&1 ||
    { apt-get -qq update >/dev/null && apt-get -qq install -y --no-install-recommends "${missing[@]}" >/dev/null; } ||
    die "apt-get could not install ${missing[*]}; install them by hand and run this again."
}

# need_root WHAT: ends here unless root. To be asked before anything is set up: the tree may be somebody else's.
need_root() {
  [ "$(id -u)" = 0 ] || die "$1 needs root: it makes namespaces and mounts. Try: sudo $1"
}

# Becomes the program MODULE of scripts/ as root. Its help needs neither root nor any set-up.
holdfast_as_root() {
  case " $* " in
    *" --help "* | *" -h "*) PYTHON=$(_holdfast_interpreter) || exit 2 ;;
    *)
      need_root "scripts/${0##*/}"
      holdfast_python
      ;;
  esac
  PYTHONPATH=$HOLDFAST_TOP/scripts:$HOLDFAST_TOP exec "$PYTHON" -m "$@"
}

# Whoever sets up must be able to write here: said in one line, with the way out.
_holdfast_own_tree() {
  { mkdir -p "$HOLDFAST_TOP/.cache" && : >>"$HOLDFAST_TOP/.cache/env.lock"; } 2>/dev/null ||
    die "Cannot write in $HOLDFAST_TOP (it belongs to $(stat -c %U "$HOLDFAST_TOP")), where the Python tools of this" \
      "checkout go: run this as that user, or in a clone of your own."
}

# Makes or refreshes .venv from requirements.lock; every file that pip takes is checked against its hash.
holdfast_python() {
  local want lock="$HOLDFAST_TOP/requirements.lock" stamp="$HOLDFAST_TOP/.venv/.holdfast-lock" found
  # The place counts too: a venv does not survive being moved.
  want="$(sha256sum <"$lock" | cut -d' ' -f1) $HOLDFAST_TOP"
  if [ -x "$PYTHON" ] && [ "$(cat "$stamp" 2>/dev/null)" = "$want" ]; then return 0; fi
  _holdfast_own_tree
  (
    flock 9
    if [ -x "$PYTHON" ] && [ "$(cat "$stamp" 2>/dev/null)" = "$want" ]; then exit 0; fi
    found=$(_holdfast_interpreter) || exit 2
    say "Setting up Python tools in .venv (once, about a minute) …"
    if ! "$PYTHON" -c '' 2>/dev/null || ! grep -qsF "$HOLDFAST_TOP/.venv" "$HOLDFAST_TOP/.venv/bin/pip"; then
      rm -rf "$HOLDFAST_TOP/.venv"
      if ! "$found" -m venv "$HOLDFAST_TOP/.venv" 2>/dev/null; then
        rm -rf "$HOLDFAST_TOP/.venv"
        # Debian keeps ensurepip in a package of its own.
        holdfast_apt "holdfast-no-such-command=python3-venv"
        "$found" -m venv "$HOLDFAST_TOP/.venv" || die "$found -m venv failed; is its venv module installed?"
      fi
    fi
    "$PYTHON" -m pip install --quiet --disable-pip-version-check --require-hashes -r "$lock" ||
      die "pip could not install requirements.lock; see its message above, then run this again."
    _holdfast_link
    printf '%s\n' "$want" >"$stamp"
  ) 9>"$HOLDFAST_TOP/.cache/env.lock" || exit 2
}

# The checkout itself, importable in .venv, and its `holdfast` command, without building anything.
_holdfast_link() {
  local site
  site=$("$PYTHON" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
  printf '%s\n%s\n' "$HOLDFAST_TOP" "$HOLDFAST_TOP/scripts" >"$site/holdfast-checkout.pth"
  printf '#!%s\nimport sys\n\nfrom holdfast.commands import main\n\nsys.exit(main())\n' "$PYTHON" \
    >"$HOLDFAST_TOP/.venv/bin/holdfast"
  chmod +x "$HOLDFAST_TOP/.venv/bin/holdfast"
}
