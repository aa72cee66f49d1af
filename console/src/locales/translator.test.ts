import { describe, expect, it } from 'vitest'
import reasonGolden from '../../../tests/golden/chinese_reasons.json'
import serverGolden from '../../../tests/golden/chinese_server.json'
import serverTexts from './serverTexts'
import reasons from './zhReasons'

const everything = reasons.extend(serverTexts)

describe('why a job waits or ended', () => {
  it.each(Object.entries(reasonGolden))('%s', (english, chinese) => {
    expect(reasons.translate(english)).toBe(chinese)
    expect(everything.translate(english)).toBe(chinese)
  })

  it('leaves a text of others as it is', () => {
    const text = 'exit 1: a program wrote this; and this'
    expect(reasons.translate(text)).toBe(text)
  })
})

describe('what the server says of all else', () => {
  it.each(Object.entries(serverGolden))('%s', (english, chinese) => {
    expect(everything.translate(english)).toBe(chinese)
  })
})
