// The SharedWorker: one stream for all tabs of this browser, since HTTP/1.1 has six connections.
import { CHANNEL, type FromTab } from './messages'
import { EventStream } from './stream'

const channel = new BroadcastChannel(CHANNEL)
const stream = new EventStream((message) => channel.postMessage(message))

channel.onmessage = (message: MessageEvent<FromTab>) => {
  if (message.data.type === 'hello') channel.postMessage({ type: 'state', state: stream.state })
  if (message.data.type === 'login') stream.hurry()
}
void stream.run()
