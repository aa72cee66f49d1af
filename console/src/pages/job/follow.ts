// Whether a log goes on following its end while it is scrolled, by wheel, keys, touch or scrollbar.

/** Distance from the end, in pixels, that still counts as the end on the way up. */
const NEAR_PIXELS = 30
/** The same on the way down: lines come while the browser scrolls to where the end was. */
const NEAR_PIXELS_DOWN = 100

/** Where a box that scrolls stands. */
export interface Scrolled {
  readonly scrollTop: number
  readonly scrollHeight: number
  readonly clientHeight: number
}

/** Up, away from the end, is the viewer's own act, since following only goes down; so is a way down to the end. */
export function decideFollowing(isFollowing: boolean, topBefore: number, now: Scrolled): boolean {
  const distance = now.scrollHeight - now.scrollTop - now.clientHeight
  if (now.scrollTop < topBefore) return isFollowing && distance < NEAR_PIXELS
  return isFollowing || (now.scrollTop > topBefore && distance < NEAR_PIXELS_DOWN)
}
