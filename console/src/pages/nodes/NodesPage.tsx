// Nodes and cards: their state and health, what holds them, and adopting, draining, releasing them.
import { Button, Checkbox, Select } from '@mantine/core'
import { useInfiniteQuery, useQuery } from '@tanstack/react-query'
import { useMemo, useState } from 'react'
import { useTranslation } from 'react-i18next'
import { useSession } from '../../app/session'
import { Answer } from '../../ui/Answer'
import { formatNumber, formatPercent, formatShare, UNKNOWN } from '../../ui/format'
import { Empty, Page, Panel } from '../../ui/Page'
import { State } from '../../ui/State'
import { VirtualTable } from '../../ui/VirtualTable'
import { CardDetails } from './CardDetails'
import {
  ACTS,
  type Act,
  CARD_HEALTHS,
  CARD_STATES,
  type CardFilter,
  findSubjects,
  listCards,
  listNodes,
  type PoolCard,
  type PoolNode,
} from './fleet'
import { NodeTable } from './NodeTable'
import { PlanDialog } from './PlanDialog'
import './nodes.css'

const ROW_HEIGHT = 40
const NO_FILTER: CardFilter = { state: null, health: null, node: null }

export function NodesPage() {
  const { t } = useTranslation('nodes')
  const [filter, setFilter] = useState<CardFilter>(NO_FILTER)
  const nodes = useQuery({ queryKey: ['nodes'], queryFn: listNodes })
  const all = nodes.data ?? []
  return (
    <Page title={t('title')} sentence={useFact(all, nodes.isSuccess)} command="gpupool gpus">
      <Answer query={nodes}>
        {nodes.isSuccess && all.length === 0 && <Empty>{t('emptyText')}</Empty>}
        {all.length > 0 && (
          <div className="grid">
            <Panel flush title={t('nodes')}>
              <NodeTable nodes={all} chosen={filter.node} onChoose={(node) => setFilter({ ...filter, node })} />
            </Panel>
            <Cards filter={filter} onFilter={setFilter} />
          </div>
        )}
      </Answer>
    </Page>
  )
}

function useFact(nodes: readonly PoolNode[], known: boolean): string {
  const { t } = useTranslation('nodes')
  if (!known) return ''
  if (nodes.length === 0) return t('factEmpty')
  const ready = nodes.filter((node) => node.ready).length
  const cards = nodes.reduce((sum, node) => sum + node.devices, 0)
  return t('fact', { ready: formatNumber(ready), nodes: formatNumber(nodes.length), cards: formatNumber(cards) })
}

interface CardsProps {
  readonly filter: CardFilter
  onFilter(filter: CardFilter): void
}

function Cards({ filter, onFilter }: CardsProps) {
  const { t } = useTranslation('nodes')
  const session = useSession().data
  const mayChange = session?.permissions.includes('manage-pool') ?? false
  const cards = useInfiniteQuery({
    queryKey: ['devices', filter],
    queryFn: ({ pageParam, signal }) => listCards(filter, pageParam, signal),
    initialPageParam: null as string | null,
    getNextPageParam: (page) => page.next,
  })
  const rows = useMemo(() => cards.data?.pages.flatMap((page) => page.items) ?? [], [cards.data])
  const [marked, setMarked] = useState<ReadonlySet<string>>(new Set())
  const [opened, setOpened] = useState<string | null>(() => new URLSearchParams(location.search).get('card'))
  const [act, setAct] = useState<Act | null>(null)
  const chosen = rows.filter((card) => marked.has(card.name))
  const toggle = (name: string) => {
    const after = new Set(marked)
    if (!after.delete(name)) after.add(name)
    setMarked(after)
  }
  const toggleAll = () => setMarked(chosen.length === rows.length ? new Set() : new Set(rows.map((row) => row.name)))
  const onEnd = () => void (cards.hasNextPage && !cards.isFetchingNextPage && cards.fetchNextPage())
  return (
    <Panel flush title={t('cards')} right={<Filters filter={filter} onFilter={onFilter} />}>
      {mayChange && (
        <div className="row wrap nodes-acts">
          <span className="small sub" role="status">
            {t('selected', { count: chosen.length })}
          </span>
          {ACTS.map((each) => (
            <Button
              key={each}
              size="xs"
              variant="default"
              disabled={findSubjects(each, chosen).length === 0}
              onClick={() => setAct(each)}
            >
              {t(`${each}`)}
            </Button>
          ))}
        </div>
      )}
      <Answer query={cards}>
        {cards.isSuccess && rows.length === 0 && (
          <Empty
            action={
              <button type="button" className="chip" onClick={() => onFilter(NO_FILTER)}>
                {t('showAll')}
              </button>
            }
          >
            {t('noMatch')}
          </Empty>
        )}
        {rows.length > 0 && (
          <VirtualTable
            className="nodes-cards"
            label={t('cards')}
            count={rows.length}
            rowHeight={ROW_HEIGHT}
            onEnd={onEnd}
            head={<CardHead mayChange={mayChange} all={chosen.length === rows.length} onToggle={toggleAll} />}
            renderRow={(index) => (
              <CardCells
                card={rows[index] as PoolCard}
                mayChange={mayChange}
                isMarked={marked.has(rows[index]?.name ?? '')}
                onToggle={toggle}
                onOpen={setOpened}
              />
            )}
          />
        )}
      </Answer>
      {opened !== null && <CardDetails name={opened} onClose={() => setOpened(null)} />}
      {act !== null && (
        <PlanDialog
          act={act}
          cards={findSubjects(act, chosen)}
          onClose={(done) => {
            setAct(null)
            if (done) setMarked(new Set())
          }}
        />
      )}
    </Panel>
  )
}

function Filters({ filter, onFilter }: CardsProps) {
  const { t } = useTranslation('nodes')
  const states = CARD_STATES.map((value) => ({ value, label: t(`state.${value}`) }))
  const healths = CARD_HEALTHS.map((value) => ({ value, label: t(`health.${value}`) }))
  return (
    <span className="row wrap">
      {filter.node !== null && (
        <button type="button" className="chip" onClick={() => onFilter({ ...filter, node: null })}>
          {filter.node} <span aria-hidden>×</span>
        </button>
      )}
      <Select
        size="xs"
        w={130}
        clearable
        aria-label={t('state')}
        placeholder={t('allStates')}
        data={states}
        value={filter.state}
        onChange={(state) => onFilter({ ...filter, state: state as CardFilter['state'] })}
      />
      <Select
        size="xs"
        w={130}
        clearable
        aria-label={t('health')}
        placeholder={t('allHealth')}
        data={healths}
        value={filter.health}
        onChange={(health) => onFilter({ ...filter, health: health as CardFilter['health'] })}
      />
    </span>
  )
}

function CardHead({ mayChange, all, onToggle }: { mayChange: boolean; all: boolean; onToggle: () => void }) {
  const { t } = useTranslation('nodes')
  return (
    <tr>
      {mayChange && (
        <th className="nodes-mark">
          <Checkbox size="xs" aria-label={t('selectAll')} checked={all} onChange={onToggle} />
        </th>
      )}
      <th>{t('card')}</th>
      <th>{t('model')}</th>
      <th>{t('state')}</th>
      <th>{t('health')}</th>
      <th className="only-l">{t('mode')}</th>
      <th className="right">{t('held')}</th>
      <th className="right only-l">{t('free')}</th>
      <th className="right only-l">{t('busy')}</th>
      <th className="right only-l">{t('temperature')}</th>
    </tr>
  )
}

interface CardCellsProps {
  readonly card: PoolCard
  readonly mayChange: boolean
  readonly isMarked: boolean
  onToggle(name: string): void
  onOpen(name: string): void
}

function CardCells({ card, mayChange, isMarked, onToggle, onOpen }: CardCellsProps) {
  const { t } = useTranslation('nodes')
  const { usage } = card
  return (
    <>
      {mayChange && (
        <td className="nodes-mark">
          <Checkbox
            size="xs"
            aria-label={t('select', { card: card.name })}
            checked={isMarked}
            onChange={() => onToggle(card.name)}
          />
        </td>
      )}
      <td>
        <button type="button" className="nodes-open link strong nowrap" onClick={() => onOpen(card.name)}>
          {card.name}
        </button>
      </td>
      <td className="nowrap">{card.model}</td>
      <td>
        <State state={card.state} />
      </td>
      <td>
        <State state={card.health} />
      </td>
      <td className="only-l">{card.mode}</td>
      <td className="right num">{formatPercent(card.used_milli / 1000)}</td>
      <td className="right num nowrap only-l">{formatShare(card.free_milli, card.free_bytes)}</td>
      <td className="right num only-l">
        {usage.utilization_percent === null ? UNKNOWN : formatPercent(usage.utilization_percent / 100)}
      </td>
      <td className="right num only-l">
        {usage.temperature_celsius === null ? UNKNOWN : `${formatNumber(usage.temperature_celsius)}\u00A0°C`}
      </td>
    </>
  )
}
