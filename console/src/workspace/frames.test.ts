import { describe, expect, it } from 'vitest'
import { EXIT, encodeFrame, encodeInput, encodeSize, FrameReader, INPUT, OUTPUT } from './frames'

const bytes = (text: string) => new TextEncoder().encode(text)
const text = (data: Uint8Array) => new TextDecoder().decode(data)

describe('FrameReader', () => {
  it('finds the frames wherever the messages are cut', () => {
    const all = new Uint8Array([...encodeFrame(OUTPUT, bytes('héllo')), ...encodeFrame(EXIT, bytes('{"code":0}'))])
    for (let cut = 0; cut <= all.length; cut++) {
      const reader = new FrameReader()
      const frames = [...reader.feed(all.slice(0, cut)), ...reader.feed(all.slice(cut))]
      expect(frames.map((frame) => [frame.kind, text(frame.content)])).toEqual([
        [OUTPUT, 'héllo'],
        [EXIT, '{"code":0}'],
      ])
    }
  })

  it('reads a part of a buffer', () => {
    const whole = new Uint8Array([9, 9, ...encodeFrame(OUTPUT, bytes('x'))])
    expect(new FrameReader().feed(whole.subarray(2))).toHaveLength(1)
  })

  it('throws for what is no frame', () => {
    expect(() => new FrameReader().feed(new Uint8Array([10, 255, 0, 0, 0]))).toThrow(/bytes/)
  })
})

describe('what is sent', () => {
  it('is cut into frames that the other end takes', () => {
    const frames = encodeInput('x'.repeat((1 << 20) + 1))
    expect(frames.map((frame) => frame.length)).toEqual([(1 << 20) + 5, 6])
    expect(frames[1]?.[0]).toBe(INPUT)
    expect(encodeInput('')).toEqual([])
  })

  it('has the size of the terminal, rows first', () => {
    expect([...encodeSize(33, 300)]).toEqual([2, 0, 0, 0, 4, 0, 33, 1, 44])
  })
})
