// What the stream's owner and the tabs say to each other over the BroadcastChannel.

/** An event of the pool, as `GET /api/v1/events` has it. */
export interface PoolEvent {
  seq: number
  at_ns: number
  kind: string
  subject: string
  tenant?: string | null
  data?: Record<string, unknown>
}

/** The stream's state: `stopped` since `sinceMs` (Unix time), or refused until the next login. */
export type StreamState =
  | { phase: 'connecting' }
  | { phase: 'live' }
  | { phase: 'stopped'; sinceMs: number }
  | { phase: 'refused' }

/** From the owner of the stream to the tabs. */
export type FromStream =
  | { type: 'state'; state: StreamState }
  | { type: 'event'; event: PoolEvent }
  /** The log is another one, or events were missed: whatever was read before is outdated. */
  | { type: 'reset' }

/** From a tab to the owner of the stream. */
export type FromTab = { type: 'hello' } | { type: 'login' }

export const CHANNEL = 'gpupool.live'
