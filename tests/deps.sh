#!/bin/sh
# Installs the Debian packages named as arguments that are missing; touches nothing, and needs no
# network, when all are there.
set -eu

if ! command -v dpkg-query >/dev/null; then
	echo "deps: not a Debian system; needed: $*" >&2
	exit 0
fi

missing=
for package; do
	status=$(dpkg-query -W -f '${db:Status-Status}\n' "$package" 2>/dev/null || true)
	case $status in
	installed*) ;;
	*) missing="$missing $package" ;;
	esac
done
[ -n "$missing" ] || exit 0

echo "deps: installing$missing"
sudo=
if [ "$(id -u)" != 0 ]; then
	if ! command -v sudo >/dev/null; then
		echo "deps: neither root nor sudo; as root: apt-get install$missing" >&2
		exit 1
	fi
	sudo=sudo
fi
apt="env DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=300"
$sudo $apt update
# shellcheck disable=SC2086 # a list of words
$sudo $apt install -y --no-install-recommends $missing
