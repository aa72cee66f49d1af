import { describe, expect, it } from 'vitest'

const catalogues = import.meta.glob<{ default: Record<string, string> }>('./*/*.json', { eager: true })
const sources = import.meta.glob<string>('../**/*.{ts,tsx}', { eager: true, query: '?raw', import: 'default' })
const read = (path: string): Record<string, string> => catalogues[path]?.default ?? {}
const names = Object.keys(catalogues)
  .filter((path) => path.startsWith('./en/'))
  .map((path) => path.slice('./en/'.length))

/** Chinese has no plural: `key_one` and `key_other` of English are `key_other` alone there. */
const findBase = (key: string) => key.replace(/_(one|other)$/, '')
const listKeys = (texts: Record<string, string>) => [...new Set(Object.keys(texts).map(findBase))].sort()
const listParameters = (text: string) => [...new Set(text.match(/\{\{\s*\w+/g) ?? [])].sort()

describe.each(names)('%s', (name) => {
  const en = read(`./en/${name}`)
  const zh = read(`./zh/${name}`)

  it('has the same keys in both languages', () => {
    expect(listKeys(zh)).toEqual(listKeys(en))
  })

  it('has the same parameters in both languages', () => {
    for (const [key, text] of Object.entries(en)) {
      const other = zh[key] ?? zh[`${findBase(key)}_other`] ?? ''
      if (key.endsWith('_one')) continue
      expect([key, listParameters(other)]).toEqual([key, listParameters(text)])
    }
  })
})

describe('texts of the sources', () => {
  const code = Object.entries(sources).filter(([path]) => !path.includes('.test.'))
  const known = new Set(
    names.flatMap((name) => listKeys(read(`./en/${name}`)).map((key) => `${name.replace('.json', '')}:${key}`)),
  )

  it('names no key that the catalogues lack', () => {
    const missing: string[] = []
    for (const [path, text] of code) {
      const namespace = /useTranslation\('([a-z]+)'/.exec(text)?.[1] ?? 'shell'
      for (const [, key] of text.matchAll(/\bt\('([^'$]+)'/g)) {
        const full = key?.includes(':') ? key : `${namespace}:${key}`
        if (!known.has(full)) missing.push(`${path}: ${full}`)
      }
    }
    expect(missing).toEqual([])
  })
})
