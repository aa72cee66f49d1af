import { Switch, TextInput } from '@mantine/core'
import { IconSearch } from '@tabler/icons-react'
import { useVirtualizer } from '@tanstack/react-virtual'
import { useEffect, useMemo, useRef, useState } from 'react'
import { useTranslation } from 'react-i18next'
import { formatNumber } from '../../ui/format'
import { Panel } from '../../ui/Page'
import { useRefusalWords } from '../../ui/Refusal'
import { decideFollowing } from './follow'
import type { LogLine } from './logLines'
import { useLog } from './useLog'

const LINE_PIXELS = 19

/** The live log of a job, with a search; lines are text, never markup. */
export function LogPanel(props: { job: string }) {
  const { t } = useTranslation('job')
  const log = useLog(props.job)
  const words = useRefusalWords()
  const [query, setQuery] = useState('')
  const [isFollowing, setFollowing] = useState(true)
  const box = useRef<HTMLDivElement>(null)
  const shown = useMemo(() => {
    const wanted = query.toLowerCase()
    return wanted === '' ? log.lines : log.lines.filter((line) => line.text.toLowerCase().includes(wanted))
  }, [log.lines, query])
  const view = useVirtualizer({
    count: shown.length,
    getScrollElement: () => box.current,
    estimateSize: () => LINE_PIXELS,
    measureElement: (element) => element.getBoundingClientRect().height,
    overscan: 20,
  })
  const count = shown.length
  useEffect(() => {
    if (isFollowing && count > 0) view.scrollToIndex(count - 1, { align: 'end' })
  }, [count, isFollowing, view])
  const top = useRef(0)
  const onScroll = () => {
    const element = box.current
    if (element === null) return
    const before = top.current
    top.current = element.scrollTop
    setFollowing(decideFollowing(isFollowing, before, element))
  }
  return (
    <Panel
      flush
      title={t('log')}
      hint={log.hasEnded ? t('logEnded') : t('logLive')}
      right={
        <>
          {query !== '' && <span className="small sub num">{t('found', { count, number: formatNumber(count) })}</span>}
          <TextInput
            data-filter
            size="xs"
            w={180}
            aria-label={t('searchLog')}
            placeholder={t('searchLog')}
            value={query}
            onChange={(event) => setQuery(event.currentTarget.value)}
            leftSection={<IconSearch size={14} aria-hidden />}
          />
          <Switch
            size="xs"
            label={t('follow')}
            checked={isFollowing}
            onChange={(event) => setFollowing(event.currentTarget.checked)}
          />
        </>
      }
    >
      <div ref={box} className="log" tabIndex={0} role="log" aria-live="off" aria-label={t('log')} onScroll={onScroll}>
        {log.problem && <p className="empty">{words(log.problem).sentence}</p>}
        {log.dropped > 0 && <p className="empty">{t('dropped', { count: log.dropped })}</p>}
        {count === 0 && !log.problem && <p className="empty">{query ? t('noLine', { query }) : t('noLog')}</p>}
        <div className="log-body" style={{ height: view.getTotalSize() }}>
          {view.getVirtualItems().map((item) => {
            const line = shown[item.index]
            if (line === undefined) return null
            return (
              <div
                key={item.key}
                ref={view.measureElement}
                data-index={item.index}
                className="log-line"
                style={{ transform: `translateY(${item.start}px)` }}
              >
                <span aria-hidden>{line.number}</span>
                <Text line={line} query={query} />
              </div>
            )
          })}
        </div>
      </div>
    </Panel>
  )
}

function Text(props: { line: LogLine; query: string }) {
  const { text } = props.line
  const at = props.query === '' ? -1 : text.toLowerCase().indexOf(props.query.toLowerCase())
  if (at < 0) return <code>{text}</code>
  const end = at + props.query.length
  return (
    <code>
      {text.slice(0, at)}
      <mark>{text.slice(at, end)}</mark>
      {text.slice(end)}
    </code>
  )
}
