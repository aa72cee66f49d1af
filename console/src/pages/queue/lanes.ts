// What waiting jobs wait for, as lanes on the time axis: running jobs by node, then reservations.

/** As much of a running job of `GET /api/v1/jobs` as a lane shows. */
export interface RunningJob {
  id: string
  name: string
  tenant: string
  node?: string | null
  count: number
  gpu_milli: number
  started_ns?: number | null
  max_seconds?: number | null
}

/** A reservation of `GET /api/v1/reservations`. */
export interface Reservation {
  id: string
  name: string
  tenant: string
  share: string
  replicas: number
  state: 'planned' | 'active' | 'ended'
  start_ns: number
  end_ns: number | null
}

/** A span of a lane in which the same is held. */
export interface Block {
  readonly kind: 'running' | 'reserved'
  readonly fromMs: number
  /** Infinity: until its program ends, or until it is deleted. */
  readonly toMs: number
  /** The names of its jobs, or of the reservation. */
  readonly names: readonly string[]
  /** The tenant; null where there are several. */
  readonly tenant: string | null
  /** Part of the lane's height, 0 to 1: of the node, as far as the viewer sees. */
  readonly height: number
}

export interface Lane {
  readonly name: string
  readonly detail: string
  readonly blocks: readonly Block[]
}

interface Span {
  readonly job: RunningJob
  readonly fromMs: number
  readonly toMs: number
}

const NS_PER_MS = 1e6

/**
 * The lanes: nodes in the order in which something ends there, at most `most`, then reservations.
 *
 * @param cards the cards of each node
 */
export function makeLanes(
  jobs: readonly RunningJob[],
  reservations: readonly Reservation[],
  cards: ReadonlyMap<string, number>,
  most: number,
): Lane[] {
  const nodes = new Map<string, Span[]>()
  for (const job of jobs) {
    if (job.node == null || job.started_ns == null) continue
    const spans = nodes.get(job.node) ?? []
    const fromMs = job.started_ns / NS_PER_MS
    const toMs = job.max_seconds == null ? Number.POSITIVE_INFINITY : fromMs + job.max_seconds * 1000
    spans.push({ job, fromMs, toMs })
    nodes.set(job.node, spans)
  }
  const ordered = [...nodes].sort(([, first], [, second]) => findFirstEnd(first) - findFirstEnd(second))
  const lanes = ordered.slice(0, most).map(([name, spans]) => ({
    name,
    detail: '',
    blocks: makeSteps(spans, cards.get(name) ?? null),
  }))
  const reserved = reservations.filter((reservation) => reservation.state !== 'ended')
  return [...lanes, ...reserved.map(makeReservedLane)]
}

/** What is held of a node from each end of a job to the next: steps that go down. */
function makeSteps(spans: readonly Span[], cards: number | null): Block[] {
  const ordered = [...spans].sort((first, second) => first.toMs - second.toMs)
  const blocks: Block[] = []
  let fromMs = Math.min(...ordered.map((span) => span.fromMs))
  ordered.forEach((span, place) => {
    if (span.toMs <= fromMs) return
    const held = ordered.slice(place)
    const milli = held.reduce((sum, { job }) => sum + job.gpu_milli * job.count, 0)
    const tenants = new Set(held.map(({ job }) => job.tenant))
    blocks.push({
      kind: 'running',
      fromMs,
      toMs: span.toMs,
      names: held.map(({ job }) => job.name),
      tenant: tenants.size === 1 ? span.job.tenant : null,
      height: cards === null ? 1 : Math.min(1, milli / (cards * 1000)),
    })
    fromMs = span.toMs
  })
  return blocks
}

function makeReservedLane({ name, tenant, share, replicas, start_ns, end_ns }: Reservation): Lane {
  const block: Block = {
    kind: 'reserved',
    fromMs: start_ns / NS_PER_MS,
    toMs: end_ns === null ? Number.POSITIVE_INFINITY : end_ns / NS_PER_MS,
    names: [name],
    tenant,
    height: 1,
  }
  return { name, detail: replicas > 1 ? `${replicas} × ${share}` : share, blocks: [block] }
}

function findFirstEnd(spans: readonly Span[]): number {
  return Math.min(...spans.map((span) => span.toMs))
}
