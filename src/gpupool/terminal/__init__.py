"""What all commands share: parser, help, output as table, JSON or YAML, questions, references."""
