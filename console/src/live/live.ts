// The tab's end of the stream: the worker's messages, or a stream of its own without SharedWorker.
import { useSyncExternalStore } from 'react'
import { CHANNEL, type FromStream, type FromTab, type PoolEvent, type StreamState } from './messages'
import { EventStream } from './stream'

let isStarted = false
let state: StreamState = { phase: 'connecting' }
const stateListeners = new Set<(state: StreamState) => void>()
const eventListeners = new Set<(event: PoolEvent | null) => void>()
let send: (message: FromTab) => void = () => undefined

function receive(message: FromStream): void {
  if (message.type === 'state') {
    state = message.state
    for (const listener of stateListeners) listener(state)
    return
  }
  const event = message.type === 'event' ? message.event : null
  for (const listener of eventListeners) listener(event)
}

/** Connect this tab after a login; a second call does nothing. */
export function startLive(): void {
  if (isStarted) return
  isStarted = true
  if (typeof SharedWorker === 'undefined') {
    const stream = new EventStream(receive)
    send = (message) => message.type === 'login' && stream.hurry()
    void stream.run()
    return
  }
  const channel = new BroadcastChannel(CHANNEL)
  channel.onmessage = (message: MessageEvent<FromStream | FromTab>) => {
    // Tabs hear each other's messages too.
    const { type } = message.data
    if (type !== 'hello' && type !== 'login') receive(message.data as FromStream)
  }
  send = (message) => channel.postMessage(message)
  new SharedWorker(new URL('./worker.ts', import.meta.url), { type: 'module', name: CHANNEL })
  send({ type: 'hello' })
  send({ type: 'login' })
}

/** Call `listener` for each event; with null where everything read before is outdated. */
export function listenToEvents(listener: (event: PoolEvent | null) => void): () => void {
  eventListeners.add(listener)
  return () => eventListeners.delete(listener)
}

/** Call `listener` for each new state of the stream. */
export function listenToState(listener: (state: StreamState) => void): () => void {
  stateListeners.add(listener)
  return () => stateListeners.delete(listener)
}

/** The stream's state, for a component. */
export function useStreamState(): StreamState {
  return useSyncExternalStore(listenToState, () => state)
}
