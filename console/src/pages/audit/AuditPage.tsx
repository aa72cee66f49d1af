// The page Audit: what users did, the newest first, and the head of the chain.
import { NativeSelect, TextInput } from '@mantine/core'
import { useDebouncedCallback } from '@mantine/hooks'
import { useInfiniteQuery, useQuery } from '@tanstack/react-query'
import { useNavigate, useSearch } from '@tanstack/react-router'
import { useMemo, useState } from 'react'
import { useTranslation } from 'react-i18next'
import { request } from '../../api/client'
import type { components } from '../../api/schema'
import { useSession } from '../../app/session'
import { formatNumber } from '../../ui/format'
import { CopyButton, Empty, Fact, Page, Panel } from '../../ui/Page'
import { Refusal } from '../../ui/Refusal'
import { AuditTable } from './AuditTable'
import { type AuditFilter, buildQuestion, EMPTY, KINDS, readFilter, writeCommand, writeFilter } from './filter'
import { RecordPanel } from './RecordPanel'
import './audit.css'

export type AuditRecord = components['schemas']['AuditRecordOut']
type AuditRecordPage = components['schemas']['Page_AuditRecordOut_']
type AuditHead = components['schemas']['AuditHeadOut']

const PAGE_SIZE = 100
const TYPING_MS = 300
/** Roles that see every record, and so the head. */
const READERS: readonly string[] = ['admin', 'auditor']

export function AuditPage() {
  const { t } = useTranslation('audit')
  const navigate = useNavigate()
  const session = useSession().data
  const search = useSearch({ strict: false }) as Record<string, unknown>
  const filter = useMemo(() => readFilter(search), [search])
  const setFilter = (next: AuditFilter) => void navigate({ to: '/audit', search: writeFilter(next), replace: true })
  const [chosen, setChosen] = useState<number | null>(null)
  const answer = useInfiniteQuery({
    queryKey: ['audit', 'list', writeFilter(filter)],
    queryFn: ({ pageParam, signal }) =>
      request<AuditRecordPage>(buildQuestion(filter, pageParam, PAGE_SIZE), { signal }),
    initialPageParam: undefined as string | undefined,
    getNextPageParam: (page) => page.next ?? undefined,
    placeholderData: (previous) => previous,
  })
  const records = useMemo(() => answer.data?.pages.flatMap((page) => page.items) ?? [], [answer.data])
  const record = records.find((one) => one.seq === chosen)
  const isReader = READERS.includes(session?.role ?? '')
  return (
    <Page title={t('title')} sentence={t(isReader ? 'fact' : 'factOwn')} command={writeCommand(filter)}>
      {isReader && <HeadPanel />}
      <FilterBar filter={filter} setFilter={setFilter} />
      {answer.isError && <Refusal error={answer.error} />}
      <Panel flush>
        {answer.isSuccess && records.length === 0 ? (
          <Empty>{t('none')}</Empty>
        ) : (
          <AuditTable
            records={records}
            chosen={chosen}
            onChoose={setChosen}
            onEnd={() => {
              if (answer.hasNextPage && !answer.isFetchingNextPage) void answer.fetchNextPage()
            }}
          />
        )}
      </Panel>
      {record && <RecordPanel record={record} />}
    </Page>
  )
}

function HeadPanel() {
  const { t } = useTranslation('audit')
  const head = useQuery({ queryKey: ['audit', 'head'], queryFn: () => request<AuditHead>('/api/v1/audit/head') })
  if (head.isError) return <Refusal error={head.error} />
  if (!head.data) return null
  const text = `${head.data.seq}:${head.data.hash}`
  return (
    <Panel title={t('head')} hint={t('headHint')} className="audit-head">
      <dl className="facts">
        <Fact name={t('headValue')}>
          <span className="row">
            <code className="mono audit-hash">{text}</code>
            <CopyButton text={text} label={t('copyHead')} />
          </span>
        </Fact>
        <Fact name={t('kept')}>
          {t('keptValue', { records: formatNumber(head.data.records), days: head.data.keep_days })}
        </Fact>
      </dl>
    </Panel>
  )
}

function FilterBar({ filter, setFilter }: { filter: AuditFilter; setFilter: (next: AuditFilter) => void }) {
  const { t } = useTranslation('audit')
  const [typed, setTyped] = useState(filter)
  const search = useDebouncedCallback(setFilter, TYPING_MS)
  const change = (next: AuditFilter) => {
    setTyped(next)
    search(next)
  }
  const isEmpty = Object.keys(writeFilter(typed)).length === 0
  return (
    <div className="row wrap filters">
      {(['user', 'action', 'object', 'tenant'] as const).map((field, index) => (
        <TextInput
          key={field}
          data-filter={index === 0 ? true : undefined}
          aria-label={t(`filter.${field}`)}
          placeholder={t(`filter.${field}`)}
          value={typed[field]}
          onChange={(event) => change({ ...typed, [field]: event.currentTarget.value })}
          size="sm"
        />
      ))}
      <NativeSelect
        aria-label={t('filter.kind')}
        value={typed.kind}
        onChange={(event) => change({ ...typed, kind: event.currentTarget.value })}
        data={[
          { value: '', label: t('anyKind') },
          ...KINDS.map((kind) => ({ value: kind as string, label: t(`kind.${kind}`) })),
        ]}
        size="sm"
      />
      {!isEmpty && (
        <button type="button" className="chip" onClick={() => change(EMPTY)}>
          {t('showAll')}
        </button>
      )}
    </div>
  )
}
