// A terminal in a job: xterm.js at this end, a program's session of the agent at the other one.
import { FitAddon } from '@xterm/addon-fit'
import { Terminal } from '@xterm/xterm'
import { getNonce } from 'get-nonce'
import '@xterm/xterm/css/xterm.css'
import { findStreamAddress, prepareShell } from '../api/workspaces'
import { ERRORS, EXIT, encodeInput, encodeSize, FrameReader, OUTPUT } from './frames'

/** Bytes that the terminal has not shown yet; what comes beyond is left out. */
const MOST_WAITING = 8 << 20
const SCROLLBACK_LINES = 5000

export interface ShellEnd {
  /** Exit code; null: ended by a signal, or the connection was lost. */
  code: number | null
  signal: number | null
}

export interface ShellEvents {
  opened: () => void
  ended: (end: ShellEnd) => void
  failed: (error: unknown) => void
  /** Output came faster than it can be shown. */
  overran: () => void
}

/**
 * Let the page's policy allow the `<style>` elements that an act makes. xterm.js 6.0.0 makes three when it opens, and
 * takes one of them from `document` whatever its option `documentOverride` says.
 */
function withStyleNonce(act: () => void): void {
  const create = document.createElement
  document.createElement = (tag: string, options?: ElementCreationOptions) => {
    const element = create.call(document, tag, options)
    if (element instanceof HTMLStyleElement) element.nonce = getNonce() ?? ''
    return element
  }
  try {
    act()
  } finally {
    // The browser's own is on the prototype.
    Reflect.deleteProperty(document, 'createElement')
  }
}

/** Open the viewer's shell in a job, below an element; returns what closes it. */
export function openShell(job: string, parent: HTMLElement, label: string, events: ShellEvents): () => void {
  const style = getComputedStyle(parent)
  const terminal = new Terminal({
    fontFamily: style.fontFamily,
    fontSize: 13,
    scrollback: SCROLLBACK_LINES,
    theme: { background: style.backgroundColor, foreground: style.color, cursor: style.color },
  })
  const fit = new FitAddon()
  terminal.loadAddon(fit)
  withStyleNonce(() => terminal.open(parent))
  terminal.textarea?.setAttribute('aria-label', label)
  fit.fit()
  const frames = new FrameReader()
  let socket: WebSocket | null = null
  let isOver = false
  let waiting = 0
  const send = (frame: Uint8Array<ArrayBuffer>) => {
    if (socket?.readyState === WebSocket.OPEN) socket.send(frame)
  }
  const end = (how: ShellEnd) => {
    if (isOver) return
    isOver = true
    terminal.options.disableStdin = true
    events.ended(how)
  }
  const show = (content: Uint8Array) => {
    if (waiting > MOST_WAITING) {
      events.overran()
      return
    }
    waiting += content.length
    terminal.write(content, () => {
      waiting -= content.length
    })
  }
  const receive = (data: ArrayBuffer) => {
    for (const frame of frames.feed(new Uint8Array(data))) {
      if (frame.kind === OUTPUT || frame.kind === ERRORS) show(frame.content)
      else if (frame.kind === EXIT) end(JSON.parse(new TextDecoder().decode(frame.content)) as ShellEnd)
    }
  }
  const connect = async () => {
    try {
      const prepared = await prepareShell(job, { rows: terminal.rows, columns: terminal.cols })
      if (isOver) return
      socket = new WebSocket(findStreamAddress(prepared.stream))
      socket.binaryType = 'arraybuffer'
      socket.onopen = () => {
        events.opened()
        send(encodeSize(terminal.rows, terminal.cols))
        terminal.focus()
      }
      socket.onmessage = (message: MessageEvent<ArrayBuffer>) => receive(message.data)
      socket.onclose = () => end({ code: null, signal: null })
    } catch (error) {
      events.failed(error)
    }
  }
  terminal.onData((text) => {
    for (const frame of encodeInput(text)) send(frame)
  })
  terminal.onResize(({ rows, cols }) => send(encodeSize(rows, cols)))
  const watcher = new ResizeObserver(() => fit.fit())
  watcher.observe(parent)
  void connect()
  return () => {
    isOver = true
    watcher.disconnect()
    socket?.close()
    terminal.dispose()
  }
}
