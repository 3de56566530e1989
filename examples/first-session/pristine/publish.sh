# Shows the notes to everyone: in this example, to a file.
cp workspace/NOTES.md workspace/published.md
echo "published $(wc -l < workspace/published.md | tr -d ' ') lines"
