// The one stream of events of this browser: resumed by its last number, again and again.
import type { FromStream, PoolEvent, StreamState } from './messages'
import { type Message, readEvents } from './sse'

const SECOND = 1000
/** The server sends a heartbeat every 15 s; two may be lost. */
const SILENCE_MS = 40 * SECOND
const FIRST_DELAY_MS = 1 * SECOND
const LONGEST_DELAY_MS = 30 * SECOND
const UNAUTHENTICATED = 401
const FORBIDDEN = 403

interface Position {
  after: number
  epoch: string
}

/** Where the log stands now, or the status of the refusal. */
async function findPosition(signal: AbortSignal): Promise<Position | number> {
  const answer = await fetch('/api/v1/pool', { credentials: 'same-origin', cache: 'no-store', signal })
  if (!answer.ok) return answer.status
  const pool = (await answer.json()) as { last_event: number; event_epoch: string }
  return { after: pool.last_event, epoch: pool.event_epoch }
}

export class EventStream {
  state: StreamState = { phase: 'connecting' }
  private position: Position | null = null
  private delay = FIRST_DELAY_MS
  private readonly publish: (message: FromStream) => void
  private wake: (() => void) | null = null
  private stopping = new AbortController()

  constructor(publish: (message: FromStream) => void) {
    this.publish = publish
  }

  /** Read until `stop`; a lost connection is tried again after 1 s, then twice as long, 30 s at most. */
  async run(): Promise<void> {
    while (!this.stopping.signal.aborted) {
      await this.readOnce()
      if (this.stopping.signal.aborted) return
      await this.pause(this.state.phase === 'refused' ? null : this.delay)
      this.delay = Math.min(this.delay * 2, LONGEST_DELAY_MS)
    }
  }

  /** Try at once, after a login. */
  hurry(): void {
    this.delay = FIRST_DELAY_MS
    this.wake?.()
  }

  stop(): void {
    this.stopping.abort()
    this.wake?.()
  }

  private async readOnce(): Promise<void> {
    try {
      if (this.position === null) {
        const found = await findPosition(this.stopping.signal)
        if (typeof found === 'number') return this.judge(found)
        this.position = found
        this.publish({ type: 'reset' })
      }
      const { after, epoch } = this.position
      const response = await readEvents(`/api/v1/watch?after=${after}&epoch=${encodeURIComponent(epoch)}`, {
        signal: this.stopping.signal,
        silence: SILENCE_MS,
        onAlive: () => this.mark({ phase: 'live' }),
        onMessage: (message) => this.pass(message),
      })
      if (response.ok) this.mark(this.stoppedNow())
      else this.judge(response.status)
    } catch {
      // fetch says no more than "failed": the connection is gone, or was silent for too long.
      this.mark(this.stoppedNow())
    }
  }

  private pass(message: Message): void {
    // The first message describes the log itself.
    if (message.event === 'log') return
    const event = JSON.parse(message.data) as PoolEvent
    if (this.position) this.position.after = event.seq
    this.publish({ type: 'event', event })
  }

  private judge(status: number): void {
    if (status === UNAUTHENTICATED || status === FORBIDDEN) {
      this.position = null
      this.mark({ phase: 'refused' })
      return
    }
    // Another 4xx: the position is of a log that is gone, so the next try begins at its end.
    if (status >= 400 && status < 500) this.position = null
    this.mark(this.stoppedNow())
  }

  private stoppedNow(): StreamState {
    return this.state.phase === 'stopped' ? this.state : { phase: 'stopped', sinceMs: Date.now() }
  }

  private mark(state: StreamState): void {
    if (state.phase === 'live') this.delay = FIRST_DELAY_MS
    if (state.phase === this.state.phase) return
    this.state = state
    this.publish({ type: 'state', state })
  }

  private async pause(milliseconds: number | null): Promise<void> {
    await new Promise<void>((resolve) => {
      const timer = milliseconds === null ? undefined : setTimeout(resolve, milliseconds)
      this.wake = () => {
        clearTimeout(timer)
        resolve()
      }
    })
    this.wake = null
  }
}
