import { describe, expect, it } from 'vitest'
import { SseParser } from './sse'

describe('SseParser', () => {
  it('joins a message that came in pieces', () => {
    const parser = new SseParser()
    expect(parser.push('id: 7\nevent: job.st')).toEqual([])
    expect(parser.push('arted\ndata: {"seq":7}\n\n')).toEqual([{ id: '7', event: 'job.started', data: '{"seq":7}' }])
  })

  it('takes heartbeats for no message', () => {
    const parser = new SseParser()
    expect(parser.push(': \n\n:alive\n\n')).toEqual([])
  })

  it('keeps the last id for a message without one', () => {
    const parser = new SseParser()
    parser.push('id: 7\ndata: a\n\n')
    expect(parser.push('data: b\r\n\r\n')).toEqual([{ id: '7', event: 'message', data: 'b' }])
  })

  it('joins the lines of one message', () => {
    expect(new SseParser().push('data: a\ndata:b\n\n')[0]?.data).toBe('a\nb')
  })
})
