// The frame of each page: a title, one sentence of fact, its acts, and the command that says the same.
import { ActionIcon } from '@mantine/core'
import { IconCheck, IconCopy } from '@tabler/icons-react'
import { type ReactNode, useState } from 'react'
import { useTranslation } from 'react-i18next'

export function Page(props: {
  title: ReactNode
  /** The name in the tab of the browser, where the title is more than a text. */
  name?: string
  sentence?: ReactNode
  actions?: ReactNode
  command?: string
  children: ReactNode
}) {
  const { t } = useTranslation('shell')
  const name = props.name ?? (typeof props.title === 'string' ? props.title : null)
  return (
    <main className="main fade" id="main">
      {name !== null && <title>{`${name} · gpupool`}</title>}
      <div className="head">
        <div className="grow">
          <h1>{props.title}</h1>
          {props.sentence && <div className="sub">{props.sentence}</div>}
        </div>
        {props.actions && <div className="row wrap">{props.actions}</div>}
      </div>
      {props.children}
      {props.command && (
        <div className="cli">
          <span className="nowrap">{t('inTerminal')}</span>
          <code className="mono">{props.command}</code>
          <CopyButton text={props.command} label={t('copyCommand')} />
        </div>
      )}
    </main>
  )
}

export function CopyButton(props: { text: string; label: string }) {
  const [copied, setCopied] = useState(false)
  const copy = async () => {
    await navigator.clipboard.writeText(props.text)
    setCopied(true)
  }
  // Browsers have no clipboard on a page without TLS, but on loopback.
  if (!navigator.clipboard) return null
  return (
    <ActionIcon variant="subtle" size="sm" aria-label={props.label} onClick={() => void copy()}>
      {copied ? <IconCheck size={14} /> : <IconCopy size={14} />}
    </ActionIcon>
  )
}

export function Panel(props: {
  title?: ReactNode
  hint?: ReactNode
  right?: ReactNode
  /** Without padding, for tables and logs. */
  flush?: boolean
  className?: string
  children?: ReactNode
}) {
  return (
    <section className={`panel ${props.className ?? ''}`}>
      {props.title && (
        <header>
          <h2>{props.title}</h2>
          {props.hint && <span className="small dim">{props.hint}</span>}
          <span className="grow" />
          {props.right}
        </header>
      )}
      {props.flush ? props.children : <div className="body">{props.children}</div>}
    </section>
  )
}

export function Fact(props: { name: string; children: ReactNode }) {
  return (
    <>
      <dt>{props.name}</dt>
      <dd>{props.children}</dd>
    </>
  )
}

/** What a page says when there is nothing to show, with the way out. */
export function Empty(props: { children: ReactNode; action?: ReactNode }) {
  return (
    <div className="empty">
      <div>{props.children}</div>
      {props.action && <div className="empty-action">{props.action}</div>}
    </div>
  )
}
