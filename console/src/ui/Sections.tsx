// Parts of a page behind tabs; the address keeps which one is open.
import { Tabs } from '@mantine/core'
import { useNavigate, useRouterState } from '@tanstack/react-router'
import type { ReactNode } from 'react'

export interface PageSection {
  readonly name: string
  readonly label: string
  content(): ReactNode
}

export function Sections({ label, sections }: { label: string; sections: readonly PageSection[] }) {
  const navigate = useNavigate()
  const asked = useRouterState({ select: (state) => (state.location.search as { part?: string }).part })
  const open = sections.find((section) => section.name === asked) ?? sections[0]
  if (open === undefined) return null
  const show = (part: string | null) => {
    if (part !== null) void navigate({ to: '.', search: { part } as never, replace: true })
  }
  return (
    <Tabs value={open.name} onChange={show} keepMounted={false} color="var(--ink)">
      <Tabs.List aria-label={label} className="sections">
        {sections.map((section) => (
          <Tabs.Tab key={section.name} value={section.name}>
            {section.label}
          </Tabs.Tab>
        ))}
      </Tabs.List>
      {sections.map((section) => (
        <Tabs.Panel key={section.name} value={section.name} pt="md">
          {section.content()}
        </Tabs.Panel>
      ))}
    </Tabs>
  )
}
