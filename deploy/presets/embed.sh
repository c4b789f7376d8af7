#!/bin/sh
# Writes presets as C: one file's text, or the table of all of them.
#
#   embed.sh text NAME.yaml >NAME.c
#   embed.sh table NAME.yaml... >table.c
set -eu
LC_ALL=C
export LC_ALL

symbol()
{
	printf 'preset_text_%s' "$(basename "$1" .yaml | tr '-' '_')"
}

case $1 in
text)
	printf 'extern const char %s[];\nconst char %s[] =\n' "$(symbol "$2")" "$(symbol "$2")"
	# ? is escaped for the sake of trigraphs
	sed -e 's/\\/\\\\/g' -e 's/"/\\"/g' -e 's/?/\\?/g' -e 's/^/"/' -e 's/$/\\n"/' "$2"
	printf '"";\n'
	;;
table)
	shift
	printf '#include "proxy/preset.h"\n\n'
	for file; do
		printf 'extern const char %s[];\n' "$(symbol "$file")"
	done
	printf '\nconst struct preset presets[] = {\n'
	for file; do
		printf '\t{"%s", %s},\n' "$(basename "$file" .yaml)" "$(symbol "$file")"
	done
	printf '};\nconst size_t preset_count = sizeof(presets) / sizeof(presets[0]);\n'
	;;
*)
	echo "embed.sh: text FILE or table FILE..." >&2
	exit 2
	;;
esac
