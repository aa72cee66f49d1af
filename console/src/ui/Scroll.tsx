import type { ReactNode, Ref } from 'react'

interface ScrollProps {
  readonly label: string
  readonly className?: string
  readonly ref?: Ref<HTMLElement>
  readonly children: ReactNode
}

/** A region that scrolls by itself: it takes the focus, so that keys scroll it too. */
export function Scroll({ label, className = 'scroll', ref, children }: ScrollProps) {
  return (
    <section ref={ref} className={className} tabIndex={0} aria-label={label}>
      {children}
    </section>
  )
}
