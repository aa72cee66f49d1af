// All English texts: one file, got when the language is.
export default import.meta.glob<Record<string, string>>('./en/*.json', { eager: true, import: 'default' })
