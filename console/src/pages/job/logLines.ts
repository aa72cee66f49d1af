// The lines of a job's log as a page shows them: text only, the newest lines, no control codes.

/** Characters of one line; a longer one goes on in the next. */
const MOST_CHARACTERS = 64 * 1024
/** Lines in memory; what is older is in `gpupool logs`. */
const MOST_LINES = 20_000
const ESC = '\\u001b'
const BEL = '\\u0007'
/** Colours and cursor movements (ECMA-48 CSI), window titles (OSC), other control characters. */
const CONTROL_CODES = new RegExp(
  [
    `${ESC}\\[[0-?]*[ -/]*[@-~]`,
    `${ESC}\\][^${BEL}${ESC}]*(?:${BEL}|${ESC}\\\\)`,
    '[\\u0000-\\u0008\\u000b\\u000c\\u000e-\\u001f]',
  ].join('|'),
  'g',
)

export interface LogLine {
  number: number
  text: string
}

export class LogLines {
  lines: LogLine[] = []
  /** Lines that are no longer in memory. */
  dropped = 0
  private rest = ''
  private count = 0
  private readonly decoder = new TextDecoder()

  /** Take a piece of the log; a character may be cut between two pieces. */
  push(bytes: Uint8Array): void {
    const parts = (this.rest + this.decoder.decode(bytes, { stream: true })).split('\n')
    this.rest = shorten(parts.pop() ?? '')
    while (this.rest.length > MOST_CHARACTERS) {
      parts.push(this.rest.slice(0, MOST_CHARACTERS))
      this.rest = this.rest.slice(MOST_CHARACTERS)
    }
    const fresh = parts.map((part) => this.number(clean(part)))
    const lines = this.lines.concat(fresh)
    const excess = Math.max(0, lines.length - MOST_LINES)
    this.dropped += excess
    this.lines = excess > 0 ? lines.slice(excess) : lines
  }

  /** All lines, with the last one that has no end yet. */
  list(): LogLine[] {
    const rest = clean(this.rest)
    return rest === '' ? this.lines : [...this.lines, { number: this.count + 1, text: rest }]
  }

  private number(text: string): LogLine {
    this.count += 1
    return { number: this.count, text }
  }
}

/** Drop what a progress bar has written over: its line has no end for hours. */
function shorten(line: string): string {
  const end = line.replace(/\r+$/, '').length
  return line.slice(line.lastIndexOf('\r', end - 1) + 1)
}

/** A progress bar writes a line again and again, each after a carriage return: the last one counts. */
function clean(line: string): string {
  const shown = line.replace(/\r+$/, '')
  return shown.slice(shown.lastIndexOf('\r') + 1).replace(CONTROL_CODES, '')
}

/** Bytes of a piece of the API, which is base64. */
export function decodePiece(data: string): Uint8Array {
  return Uint8Array.from(atob(data), (character) => character.charCodeAt(0))
}
