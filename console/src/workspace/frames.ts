// Frames of a program that runs in a job: one byte for the kind, four for the length, the content.
// The other end is gpupool/client/streams/frames.py.

/** To the program. */
export const INPUT = 0
export const RESIZE = 2
/** From the program. */
export const OUTPUT = 10
export const ERRORS = 11
export const EXIT = 12

const HEAD_BYTES = 5
/** Bytes of a frame's content; the other end refuses more. */
const MOST_CONTENT = 1 << 20
const NOTHING = new Uint8Array(0)

export interface Frame {
  kind: number
  content: Uint8Array
}

export function encodeFrame(kind: number, content: Uint8Array): Uint8Array<ArrayBuffer> {
  const frame = new Uint8Array(HEAD_BYTES + content.length)
  frame[0] = kind
  new DataView(frame.buffer).setUint32(1, content.length)
  frame.set(content, HEAD_BYTES)
  return frame
}

/** What is typed, in as many frames as it needs. */
export function encodeInput(text: string): Uint8Array<ArrayBuffer>[] {
  const bytes = new TextEncoder().encode(text)
  const frames: Uint8Array<ArrayBuffer>[] = []
  for (let start = 0; start < bytes.length; start += MOST_CONTENT) {
    frames.push(encodeFrame(INPUT, bytes.subarray(start, start + MOST_CONTENT)))
  }
  return frames
}

export function encodeSize(rows: number, columns: number): Uint8Array<ArrayBuffer> {
  const content = new Uint8Array(4)
  const view = new DataView(content.buffer)
  view.setUint16(0, rows)
  view.setUint16(2, columns)
  return encodeFrame(RESIZE, content)
}

/** Divides bytes into frames, wherever the messages that bring them are cut. */
export class FrameReader {
  #rest: Uint8Array = NOTHING

  /** Take bytes; return the frames that are complete. Throws where what came is no frame. */
  feed(data: Uint8Array): Frame[] {
    const bytes = this.#rest.length === 0 ? data : join(this.#rest, data)
    const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength)
    const frames: Frame[] = []
    let start = 0
    while (bytes.length - start >= HEAD_BYTES) {
      const length = view.getUint32(start + 1)
      if (length > MOST_CONTENT) throw new Error(`a frame of ${length} bytes`)
      const end = start + HEAD_BYTES + length
      if (bytes.length < end) break
      frames.push({ kind: bytes[start] ?? 0, content: bytes.slice(start + HEAD_BYTES, end) })
      start = end
    }
    this.#rest = bytes.slice(start)
    return frames
  }
}

function join(one: Uint8Array, other: Uint8Array): Uint8Array {
  const both = new Uint8Array(one.length + other.length)
  both.set(one)
  both.set(other, one.length)
  return both
}
