// The fields of a template as a form, and the values that the form sends.
import type { FieldValue, TemplateField, Words } from '../../api/templates'

export type Values = Record<string, string>
export type NamedField = TemplateField & { name: string }

/** The fields in the order of the form. */
export function listFields(fields: Record<string, TemplateField>): NamedField[] {
  return Object.entries(fields)
    .map(([name, field]) => ({ ...field, name }))
    .sort((one, other) => (one.order ?? 0) - (other.order ?? 0) || one.name.localeCompare(other.name))
}

/** Texts of a field's default; an array has an item in each line. */
export function beginValues(fields: Record<string, TemplateField>): Values {
  const values: Values = {}
  for (const [name, field] of Object.entries(fields)) {
    const given = field.default
    values[name] = Array.isArray(given) ? given.join('\n') : given === null || given === undefined ? '' : String(given)
  }
  return values
}

/** What is sent. A field that is empty is left out; the server reads numbers from text. */
export function readValues(fields: Record<string, TemplateField>, values: Values): Record<string, FieldValue> {
  const sent: Record<string, FieldValue> = {}
  for (const [name, field] of Object.entries(fields)) {
    const text = values[name] ?? ''
    if (field.type === 'array') {
      const items = text.split('\n').filter((line) => line.trim() !== '')
      if (items.length > 0) sent[name] = items
    } else if (text.trim() !== '') sent[name] = text
  }
  return sent
}

/** Whether every field that needs a value has one: an empty form is not wrong. */
export const isComplete = (fields: Record<string, TemplateField>, sent: Record<string, FieldValue>): boolean =>
  Object.entries(fields).every(([name, field]) => !field.required || name in sent || field.default != null)

/** A text of a template in the viewer's language; the English one where there is no other. */
export const chooseWords = (words: Words, language: string): string =>
  (language.startsWith('zh') ? words.zh : null) ?? words.en
