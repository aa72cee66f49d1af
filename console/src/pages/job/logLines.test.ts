import { describe, expect, it } from 'vitest'
import { decodePiece, LogLines } from './logLines'

const bytes = (text: string) => new TextEncoder().encode(text)
const texts = (log: LogLines) => log.list().map((line) => line.text)

describe('LogLines', () => {
  it('joins a line, and a character, that came in pieces', () => {
    const log = new LogLines()
    const all = bytes('损失 1.84\nstep')
    log.push(all.slice(0, 2))
    log.push(all.slice(2))
    expect(texts(log)).toEqual(['损失 1.84', 'step'])
  })

  it('shows the last state of a progress bar, without colours', () => {
    const log = new LogLines()
    log.push(bytes(' 10%\r 20%\r\u001b[32m 30%\u001b[0m\r\nnext\n'))
    expect(texts(log)).toEqual([' 30%', 'next'])
  })

  it('keeps the newest lines and counts the others', () => {
    const log = new LogLines()
    for (let part = 0; part < 5; part += 1) log.push(bytes('x\n'.repeat(5000)))
    expect([log.lines.length, log.dropped, log.lines.at(-1)?.number]).toEqual([20_000, 5000, 25_000])
  })

  it('keeps of a progress bar without an end what is shown alone', () => {
    const log = new LogLines()
    for (let step = 0; step < 2000; step += 1) log.push(bytes(`\r${step} of 2000`))
    expect(texts(log)).toEqual(['1999 of 2000'])
    expect(JSON.stringify(log).length).toBeLessThan(500)
    log.push(bytes('\r\ndone\n'))
    expect(texts(log)).toEqual(['1999 of 2000', 'done'])
  })

  it('ends a line that has no end', () => {
    const log = new LogLines()
    for (let part = 0; part < 40; part += 1) log.push(bytes('x'.repeat(100_000)))
    expect(log.lines.length).toBeGreaterThan(10)
    expect(texts(log).join('').length).toBe(4_000_000)
  })

  it('reads the base64 of the API', () => {
    expect([...decodePiece('AP8K')]).toEqual([0, 255, 10])
  })
})
