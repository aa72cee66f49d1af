// All Chinese texts: one file, got when the language is.
export default import.meta.glob<Record<string, string>>('./zh/*.json', { eager: true, import: 'default' })
export { default as reasons } from './zhReasons'
