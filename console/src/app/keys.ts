// Keys of the whole console: `g` + letter opens a page, `/` goes to the filter, `?` shows the keys.
import { useEffect } from 'react'
import { PAGES } from './pages'

/** Time for the second key after `g`. */
const SECOND_KEY_MS = 1200

/** Pages by the letter after `g`. */
export const SHORTCUTS: ReadonlyMap<string, string> = new Map(
  PAGES.flatMap((page) => (page.menu?.shortcut ? [[page.menu.shortcut, page.path] as const] : [])),
)

const isTyping = (target: EventTarget | null): boolean =>
  target instanceof Element && target.closest('input, textarea, select, [contenteditable], [role="dialog"]') !== null

export function useKeys(acts: { open: (path: string) => void; help: () => void }): void {
  useEffect(() => {
    let pressedG = Number.NEGATIVE_INFINITY
    const onKey = (event: KeyboardEvent) => {
      if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey || isTyping(event.target)) return
      const path = event.timeStamp - pressedG < SECOND_KEY_MS ? SHORTCUTS.get(event.key) : undefined
      pressedG = event.key === 'g' ? event.timeStamp : Number.NEGATIVE_INFINITY
      if (path !== undefined) acts.open(path)
      else if (event.key === '/') {
        event.preventDefault()
        document.querySelector<HTMLInputElement>('[data-filter]')?.focus()
      } else if (event.key === '?') acts.help()
    }
    addEventListener('keydown', onKey)
    return () => removeEventListener('keydown', onKey)
  }, [acts])
}
