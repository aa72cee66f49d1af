// A reader of server-sent events over `fetch`. The browser's EventSource calls one listener per
// event name and hides the answer's status; the pool has many kinds of event, and a refusal (401,
// a position of another log) asks for another act than a lost connection.

export interface Message {
  id: string
  event: string
  data: string
}

/** Splits the bytes of a stream into messages; lines end with LF or CRLF. */
export class SseParser {
  private rest = ''
  private id = ''
  private event = ''
  private data: string[] = []

  /** Take a piece of the stream; returns the messages that it completes. */
  push(text: string): Message[] {
    const lines = (this.rest + text).split('\n')
    this.rest = lines.pop() ?? ''
    const messages: Message[] = []
    for (const line of lines) {
      const message = this.readLine(line.endsWith('\r') ? line.slice(0, -1) : line)
      if (message) messages.push(message)
    }
    return messages
  }

  private readLine(line: string): Message | null {
    if (line === '') return this.finish()
    // A comment: the server's heartbeat.
    if (line.startsWith(':')) return null
    const colon = line.indexOf(':')
    const field = colon < 0 ? line : line.slice(0, colon)
    const value = colon < 0 ? '' : line.slice(colon + 1).replace(/^ /, '')
    if (field === 'id') this.id = value
    if (field === 'event') this.event = value
    if (field === 'data') this.data.push(value)
    return null
  }

  private finish(): Message | null {
    const message = { id: this.id, event: this.event || 'message', data: this.data.join('\n') }
    const complete = this.data.length > 0
    this.event = ''
    this.data = []
    return complete ? message : null
  }
}

/**
 * Read a stream until it ends, `signal` aborts it, or `silence` milliseconds pass without a byte.
 *
 * Calls `onAlive` for each piece, heartbeats too. Throws what `fetch` throws; a status other than
 * 200 is the caller's to judge, so the response comes back unread.
 */
export async function readEvents(
  url: string,
  options: {
    headers?: Record<string, string>
    signal: AbortSignal
    silence: number
    onMessage: (message: Message) => void
    onAlive: () => void
  },
): Promise<Response> {
  const watchdog = new AbortController()
  let timer = setTimeout(() => watchdog.abort(), options.silence)
  const signal = AbortSignal.any([options.signal, watchdog.signal])
  try {
    const response = await fetch(url, {
      headers: { Accept: 'text/event-stream', ...options.headers },
      credentials: 'same-origin',
      cache: 'no-store',
      signal,
    })
    if (!response.ok || response.body === null) return response
    options.onAlive()
    const parser = new SseParser()
    const decoder = new TextDecoder()
    const reader = response.body.getReader()
    for (;;) {
      const piece = await reader.read()
      if (piece.done) return response
      clearTimeout(timer)
      timer = setTimeout(() => watchdog.abort(), options.silence)
      options.onAlive()
      for (const message of parser.push(decoder.decode(piece.value, { stream: true }))) {
        options.onMessage(message)
      }
    }
  } finally {
    clearTimeout(timer)
  }
}
