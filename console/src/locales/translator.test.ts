import { describe, expect, it } from 'vitest'
import golden from '../../../tests/golden/chinese_reasons.json'
import reasons from './zhReasons'

describe('why a job waits or ended', () => {
  it.each(Object.entries(golden))('%s', (english, chinese) => {
    expect(reasons.translate(english)).toBe(chinese)
  })

  it('leaves a text of others as it is', () => {
    const text = 'exit 1: a program wrote this; and this'
    expect(reasons.translate(text)).toBe(text)
  })
})
