// The log of one job as it grows: a stream, resumed by its offset until the job has ended.
import { useEffect, useRef, useState } from 'react'
import { Problem, readProblem } from '../../api/problem'
import { readEvents } from '../../live/sse'
import { decodePiece, type LogLine, LogLines } from './logLines'

/** The log begins that many bytes before its end. */
const TAIL_BYTES = 256 * 1024
const SILENCE_MS = 40_000
const PAUSE_MS = 2000

interface Piece {
  data: string
  next_offset: number
  ended: boolean
}

export interface Log {
  lines: readonly LogLine[]
  dropped: number
  hasEnded: boolean
  problem: Problem | null
}

const NOTHING: Log = { lines: [], dropped: 0, hasEnded: false, problem: null }

export function useLog(job: string): Log {
  const [log, setLog] = useState<Log>(NOTHING)
  const frame = useRef(0)
  useEffect(() => {
    const stopping = new AbortController()
    const buffer = new LogLines()
    let offset = -TAIL_BYTES
    let hasEnded = false
    setLog(NOTHING)
    // Many pieces come between two frames of the screen; one drawing is enough for all of them.
    const show = () => {
      cancelAnimationFrame(frame.current)
      frame.current = requestAnimationFrame(() =>
        setLog({ lines: buffer.list(), dropped: buffer.dropped, hasEnded, problem: null }),
      )
    }
    const take = (data: string) => {
      const piece = JSON.parse(data) as Piece
      buffer.push(decodePiece(piece.data))
      offset = piece.next_offset
      hasEnded = piece.ended
      show()
    }
    const read = async () => {
      while (!hasEnded && !stopping.signal.aborted) {
        try {
          const response = await readEvents(`/api/v1/jobs/${encodeURIComponent(job)}/logs?offset=${offset}`, {
            signal: stopping.signal,
            silence: SILENCE_MS,
            onAlive: () => undefined,
            onMessage: (message) => message.event === 'message' && take(message.data),
          })
          if (!response.ok) throw await readProblem(response)
        } catch (error) {
          if (stopping.signal.aborted) return
          if (error instanceof Problem && error.status < 500) {
            setLog((before) => ({ ...before, problem: error }))
            return
          }
          // The connection is gone, or the server restarts: it goes on from the same offset.
        }
        await new Promise((resolve) => setTimeout(resolve, hasEnded ? 0 : PAUSE_MS))
      }
    }
    void read()
    return () => {
      stopping.abort()
      cancelAnimationFrame(frame.current)
    }
  }, [job])
  return log
}
