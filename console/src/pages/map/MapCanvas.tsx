/** The map as a canvas that scrolls: pointer, keys, and what a screen reader says. */

import {
  type KeyboardEvent,
  type MouseEvent,
  useCallback,
  useEffect,
  useLayoutEffect,
  useMemo,
  useRef,
  useState,
} from 'react'
import { findChangedCards, type PoolColumns } from '../../map/columns'
import { moveFocus, revealTile } from '../../map/focus'
import type { CardGroup } from '../../map/groups'
import { findHit, type Hit } from '../../map/hits'
import { layOut, type MapLayout, rectangleOf } from '../../map/layout'
import { type Palette, readPalette } from '../../map/palette'
import { MapSurface, type Scene } from '../../map/surface'
import type { Colouring } from '../../map/tiles'
import type { Mark } from '../../theme/marks'

export interface MapCanvasProps {
  readonly columns: PoolColumns
  readonly groups: readonly CardGroup[]
  /** The lines above each group: its title, and what is held of it. */
  readonly titles: readonly (readonly [title: string, amount: string])[]
  readonly marks: readonly Mark[]
  readonly colouring: Colouring
  readonly zoom: number
  /** The colour scheme that is in force: another one is another palette. */
  readonly scheme: string
  readonly selected: number | null
  readonly label: string
  /** The sentence about a card for a screen reader. */
  describe(card: number): string
  onSelect(card: number): void
  /** The card under the pointer, and where on the screen; null: none. */
  onPoint(hit: Hit | null, x: number, y: number): void
}

interface View {
  readonly width: number
  readonly height: number
  readonly ratio: number
}

/** Lay out, draw and operate the map. */
export function MapCanvas(props: MapCanvasProps) {
  const { columns, groups, titles, marks, colouring, zoom, scheme, selected } = props
  const scroller = useRef<HTMLDivElement>(null)
  const canvas = useRef<HTMLCanvasElement>(null)
  const surface = useRef<MapSurface | null>(null)
  const drawn = useRef<Scene | null>(null)
  const sized = useRef<View | null>(null)
  const view = useView(scroller)
  const layout = useMemo(() => layOut(groups, Math.max(240, view.width), zoom), [groups, view.width, zoom])
  const [focused, setFocused] = useState<number | null>(null)
  const [hovered, setHovered] = useState<number | null>(null)
  // The tile in focus is remembered; another layout may have other tiles.
  const tile = findFocusedTile(layout, focused, selected)

  const palette = usePalette(canvas, view.ratio, scheme)

  useLayoutEffect(() => {
    if (!canvas.current || view.width === 0 || !palette) return
    surface.current ??= new MapSurface(canvas.current)
    const { current } = surface
    if (sized.current !== view) {
      // What was drawn is lost, also where only the height changes.
      current.resize(view.width, view.height, view.ratio)
      sized.current = view
      drawn.current = null
    }
    const scene = { columns, groups, layout, colouring, marks, palette, titles }
    const changed = drawn.current && findRedrawn(drawn.current, scene)
    if (changed) current.update(scene, changed)
    else current.show(scene)
    drawn.current = scene
    canvas.current.setAttribute('data-painted', String(current.painted))
    canvas.current.setAttribute('data-painted-in-all', String(current.paintedInAll))
  }, [view, columns, groups, layout, colouring, marks, palette, titles])

  const onScroll = useCallback(() => {
    const box = scroller.current
    if (box) surface.current?.moveTo(box.scrollLeft, box.scrollTop)
  }, [])

  const hitAt = (event: MouseEvent): Hit | null => {
    const box = scroller.current
    if (!box) return null
    const corner = box.getBoundingClientRect()
    return findHit(
      layout,
      columns,
      event.clientX - corner.left + box.scrollLeft,
      event.clientY - corner.top + box.scrollTop,
    )
  }
  const point = (event: MouseEvent): void => {
    const hit = hitAt(event)
    setHovered(hit?.tile ?? null)
    props.onPoint(hit, event.clientX, event.clientY)
  }
  const choose = (next: number): void => {
    setFocused(next)
    props.onSelect(layout.cards[next] ?? 0)
    const box = scroller.current
    if (!box) return
    const { left, top } = revealTile(layout, next, {
      left: box.scrollLeft,
      top: box.scrollTop,
      width: box.clientWidth,
      height: box.clientHeight,
    })
    box.scrollTo(left, top)
  }
  const onKeyDown = (event: KeyboardEvent): void => {
    if (event.ctrlKey || event.metaKey || event.altKey) return
    const next = tile === null ? (layout.cards.length > 0 ? 0 : null) : moveFocus(layout, tile, event.key)
    if (next === null || !event.key.match(/^(Arrow|Page|Home|End)/)) return
    event.preventDefault()
    choose(next)
  }

  return (
    <div ref={scroller} className="map-view" onScroll={onScroll}>
      <div className="map-extent" style={{ width: layout.totalWidth, height: layout.totalHeight }}>
        <div className="map-window" style={{ width: view.width, height: view.height }}>
          {/* biome-ignore lint/a11y/noInteractiveElementToNoninteractiveRole: arrow keys move on the map, as in an application. */}
          <canvas
            ref={canvas}
            className="map-canvas"
            style={{ width: view.width, height: view.height }}
            role="application"
            aria-label={props.label}
            tabIndex={0}
            onMouseMove={point}
            onMouseLeave={() => {
              setHovered(null)
              props.onPoint(null, 0, 0)
            }}
            onClick={(event) => {
              const hit = hitAt(event)
              if (hit) choose(hit.tile)
            }}
            onKeyDown={onKeyDown}
          />
        </div>
        {hovered !== null && hovered < layout.cards.length && (
          <Outline layout={layout} tile={hovered} name="map-hovered" />
        )}
        {tile !== null && <Outline layout={layout} tile={tile} name="map-selected" />}
      </div>
      <div aria-live="polite" className="sr" data-map-live>
        {tile === null ? '' : props.describe(layout.cards[tile] ?? 0)}
      </div>
    </div>
  )
}

function Outline({ layout, tile, name }: { layout: MapLayout; tile: number; name: string }) {
  const { x, y, width, height } = rectangleOf(layout, tile)
  return <i aria-hidden className={name} style={{ left: x - 3, top: y - 3, width: width + 6, height: height + 6 }} />
}

/** The tile of the selected card: the one in focus where it shows that card, else the first. */
function findFocusedTile(layout: MapLayout, focused: number | null, selected: number | null): number | null {
  if (selected === null) return null
  if (focused !== null && layout.cards[focused] === selected) return focused
  const tile = layout.cards.indexOf(selected)
  return tile < 0 ? null : tile
}

/** The cards to draw again, where nothing but cards changed; null: everything. */
function findRedrawn(before: Scene, after: Scene): number[] | null {
  const same =
    before.layout === after.layout &&
    before.colouring === after.colouring &&
    before.palette === after.palette &&
    before.groups === after.groups
  // Other tenants have other marks: the columns tell of that.
  return same ? findChangedCards(before.columns, after.columns) : null
}

/** The size of the part of the map that is seen. */
function useView(scroller: { readonly current: HTMLDivElement | null }): View {
  const [view, setView] = useState<View>({ width: 0, height: 0, ratio: 1 })
  useLayoutEffect(() => {
    const box = scroller.current
    if (!box) return
    const observer = new ResizeObserver(() => {
      setView((before) => {
        const { clientWidth: width, clientHeight: height } = box
        const ratio = window.devicePixelRatio || 1
        const same = before.width === width && before.height === height && before.ratio === ratio
        return same ? before : { width, height, ratio }
      })
    })
    observer.observe(box)
    return () => {
      observer.disconnect()
    }
  }, [scroller])
  return view
}

/** The colours of the scheme that is in force; read again when the fonts of the page have come. */
function usePalette(
  canvas: { readonly current: HTMLCanvasElement | null },
  ratio: number,
  scheme: string,
): Palette | null {
  const [palette, setPalette] = useState<Palette | null>(null)
  // biome-ignore lint/correctness/useExhaustiveDependencies: the scheme decides what is read from the page.
  useEffect(() => {
    let mounted = true
    const read = () => {
      const context = canvas.current?.getContext('2d', { alpha: false })
      if (context && mounted) setPalette(readPalette(context, ratio))
    }
    // A canvas does not draw itself again when a font has come.
    void document.fonts.ready.then(read)
    return () => {
      mounted = false
    }
  }, [canvas, ratio, scheme])
  return palette
}
