import { describe, expect, it } from 'vitest'
import type { TemplateField } from '../../api/templates'
import { beginValues, chooseWords, isComplete, listFields, readValues } from './fields'

const field = (more: Partial<TemplateField>): TemplateField => ({
  type: 'string',
  title: { en: 'x', zh: null },
  required: false,
  order: 0,
  ...more,
})
const fields = {
  words: field({ type: 'array', order: 20, default: ['a', 'b c'] }),
  gpu: field({ type: 'number', order: 10, default: 0.25 }),
  fast: field({ type: 'boolean', order: 10, default: false }),
  script: field({ order: 5, required: true }),
}

describe('fields of a template', () => {
  it('are in the order of the document, then by name', () => {
    expect(listFields(fields).map((one) => one.name)).toEqual(['script', 'fast', 'gpu', 'words'])
  })

  it('begin with their defaults', () => {
    expect(beginValues(fields)).toEqual({ words: 'a\nb c', gpu: '0.25', fast: 'false', script: '' })
  })

  it('send lines of an array as items, spaces and commas in them kept, and nothing for what is empty', () => {
    const values = { words: 'lr=0.1,0.01\n\n bs = 8', gpu: '', fast: 'true', script: ' ' }
    expect(readValues(fields, values)).toEqual({ words: ['lr=0.1,0.01', ' bs = 8'], fast: 'true' })
  })

  it('are complete once each one that needs a value has one', () => {
    expect(isComplete(fields, {})).toBe(false)
    expect(isComplete(fields, { script: 't.py' })).toBe(true)
  })

  it('are named in the language of the viewer, in English where there is no other text', () => {
    expect(chooseWords({ en: 'Model', zh: '模型' }, 'zh-CN')).toBe('模型')
    expect(chooseWords({ en: 'Model', zh: null }, 'zh')).toBe('Model')
    expect(chooseWords({ en: 'Model', zh: '模型' }, 'en')).toBe('Model')
  })
})
