// The glyph of gpupool: one card, or one pool, as a bar with its shares to scale.
import { findMark, styleMark } from '../theme/marks'
import { formatPercent, UNKNOWN } from './format'

export interface Piece {
  /** In the unit of the bar's `total`. */
  width: number
  /** A tenant's name; null for a share of a tenant that the viewer may not see. */
  tenant?: string | null
  kind?: 'tenant' | 'stranded' | 'dead' | 'reserved' | 'unused' | 'mine'
  label?: string
}

const CLASSES: Record<string, string> = {
  stranded: 'strand',
  dead: 'dead',
  reserved: 'resv',
  unused: 'unused',
  mine: 'ghost',
}

export function ShareBar(props: { pieces: readonly Piece[]; total?: number; height?: number; label?: string }) {
  const total = props.total ?? 1
  const known = props.label ? { role: 'img', 'aria-label': props.label } : { 'aria-hidden': true }
  return (
    <div className="bar" style={{ height: props.height ?? 16 }} {...known}>
      {props.pieces
        .filter((piece) => piece.width > 0)
        .map((piece, place) => {
          const width = `calc(${(piece.width / total) * 100}% - 1px)`
          const kind = piece.kind ?? 'tenant'
          const mark = kind === 'tenant' ? styleMark(findMark(piece.tenant)) : {}
          // biome-ignore lint/suspicious/noArrayIndexKey: pieces have no name, only their place.
          return <i key={place} title={piece.label} className={CLASSES[kind] ?? ''} style={{ width, ...mark }} />
        })}
    </div>
  )
}

export function Tenant(props: { name: string | null | undefined; strong?: boolean }) {
  return (
    <span className={props.strong ? 'ten strong' : 'ten'}>
      <span className="sw" style={styleMark(findMark(props.name))} aria-hidden />
      {props.name ?? UNKNOWN}
    </span>
  )
}

/** Use of its own share, between 0 and 1; unknown is `--`, never an empty bar. */
export function Use(props: { ratio: number | null; width?: number }) {
  if (props.ratio === null) return <span className="dim">{UNKNOWN}</span>
  const wide = `${Math.min(1, props.ratio) * 100}%`
  return (
    <span className="row tight">
      <span className="meter" style={{ width: props.width ?? 64 }} aria-hidden>
        <i style={{ width: wide, background: props.ratio < 0.1 ? 'var(--wait)' : undefined }} />
      </span>
      <span className="num small">{formatPercent(props.ratio)}</span>
    </span>
  )
}
