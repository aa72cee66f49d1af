// Marks of tenants: a hue and a pattern. Every pair of hues that protan, deutan or tritan eyes
// confuse (OKLab distance under 0.08) has two different patterns.

export type Pattern = 'solid' | 'slash' | 'dots' | 'lines'

export interface Mark {
  name: string
  hex: string
  pattern: Pattern
}

export const MARKS: readonly Mark[] = [
  { name: 'azure', hex: '#2F6FDE', pattern: 'solid' },
  { name: 'vermilion', hex: '#D9542B', pattern: 'solid' },
  { name: 'teal', hex: '#0B8F8A', pattern: 'slash' },
  { name: 'gold', hex: '#D99A00', pattern: 'solid' },
  { name: 'plum', hex: '#9B3FA8', pattern: 'solid' },
  { name: 'moss', hex: '#4F8A10', pattern: 'dots' },
  { name: 'sky', hex: '#6FB4EE', pattern: 'solid' },
  { name: 'rose', hex: '#E0679A', pattern: 'dots' },
  { name: 'slate', hex: '#5B6B82', pattern: 'lines' },
  { name: 'lime', hex: '#A6BF2F', pattern: 'slash' },
  { name: 'violet', hex: '#6A4FD0', pattern: 'slash' },
  { name: 'rust', hex: '#8C3B1F', pattern: 'solid' },
]

/** The mark of shares whose tenant the viewer may not see. */
export const ANONYMOUS: Mark = { name: 'other', hex: '#8791A0', pattern: 'lines' }

const IMAGES: Record<Pattern, string> = {
  solid: 'none',
  slash: 'repeating-linear-gradient(135deg, rgba(255,255,255,.5) 0 1.5px, transparent 1.5px 5px)',
  dots: 'radial-gradient(circle at 2px 2px, rgba(255,255,255,.62) 1px, transparent 1.3px)',
  lines: 'repeating-linear-gradient(0deg, rgba(255,255,255,.5) 0 1px, transparent 1px 4px)',
}

/** Place of a name in the list of marks: FNV-1a. */
function hashName(name: string): number {
  let hash = 0x811c9dc5
  for (const byte of new TextEncoder().encode(name)) {
    hash = Math.imul(hash ^ byte, 0x01000193) >>> 0
  }
  return hash % MARKS.length
}

let places: ReadonlyMap<string, number> = new Map()

/**
 * Give each tenant a mark: that of its name, or the next one that no older tenant has.
 *
 * Nine names alone would meet in 12 marks with 98 % probability. A tenant keeps its mark as long as
 * those before it stay; beyond 12 tenants two share a mark, and their names stand beside it.
 */
export function assignMarks(tenants: readonly { name: string; created_ns: number }[]): void {
  const assigned = new Map<string, number>()
  const taken = new Set<number>()
  const byAge = [...tenants].sort((one, other) => one.created_ns - other.created_ns)
  for (const { name } of byAge) {
    let place = hashName(name)
    for (let step = 0; step < MARKS.length && taken.has(place); step += 1) place = (place + 1) % MARKS.length
    taken.add(place)
    assigned.set(name, place)
  }
  places = assigned
}

/** The tenant's mark, the same on each page; that of a tenant of which only the name is known by its hash. */
export function findMark(tenant: string | null | undefined): Mark {
  if (!tenant) return ANONYMOUS
  return MARKS[places.get(tenant) ?? hashName(tenant)] ?? ANONYMOUS
}

/** The mark as CSS, for pieces of a share bar and for swatches. */
export function styleMark(mark: Mark) {
  return {
    backgroundColor: mark.hex,
    backgroundImage: IMAGES[mark.pattern],
    backgroundSize: mark.pattern === 'dots' ? '5px 5px' : undefined,
  }
}

// Use of its own share: orange (held, not used) through grey to quiet blue (used). The eye goes
// to waste; orange against blue holds for every kind of colour blindness.
export const USE_RAMP = ['#B93F0A', '#DD7430', '#ECAA73', '#D3C8BB', '#A3B5CA', '#6F8FB5', '#45699A'] as const

/** The colour of a use between 0 and 1; null for an unknown use, which is drawn hatched. */
export function colourUse(use: number | null): string | null {
  if (use === null) return null
  const step = Math.max(0, Math.min(USE_RAMP.length - 1, Math.floor(use * USE_RAMP.length)))
  return USE_RAMP[step] ?? null
}
