// Fragmentation: what is free and of no use, and which jobs to move so that whole cards come free.
import { Button, SegmentedControl, TextInput } from '@mantine/core'
import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query'
import { useState } from 'react'
import { useTranslation } from 'react-i18next'
import { request } from '../../api/client'
import { send } from '../../api/lists'
import type { components } from '../../api/schema'
import { Answer } from '../../ui/Answer'
import { FormDialog } from '../../ui/FormDialog'
import { formatCards, formatDuration, formatNumber, formatPercent } from '../../ui/format'
import { Empty, Fact, Page, Panel } from '../../ui/Page'
import { Refusal } from '../../ui/Refusal'
import { type Piece, ShareBar, Tenant } from '../../ui/ShareBar'
import { type Column, Table } from '../../ui/Table'
import {
  type DefragPlan,
  findFaults,
  type Limits,
  type Move,
  type Moved,
  makeDefragBody,
  makeMoveLimits,
  makeMovesBody,
  NO_LIMITS,
  type RebalancePlan,
  sumByTenant,
} from './moves'

type Capacity = components['schemas']['CapacityOut']
type Model = Capacity['models'][number]
type Goal = 'defrag' | 'rebalance'
type Plan = { goal: 'defrag'; plan: DefragPlan } | { goal: 'rebalance'; plan: RebalancePlan }

export function DefragPage() {
  const { t } = useTranslation('defrag')
  const capacity = useQuery({ queryKey: ['capacity'], queryFn: () => request<Capacity>('/api/v1/capacity') })
  const models = capacity.data?.models ?? []
  const free = models.reduce((sum, model) => sum + model.free_milli, 0)
  const whole = models.reduce((sum, model) => sum + model.whole_free, 0)
  const columns: Column<Model>[] = [
    { title: t('model'), cell: (model) => <span className="strong">{model.model}</span> },
    {
      title: t('ofFree'),
      minor: true,
      cell: (model) => <FreeBar model={model} />,
    },
    { title: t('free'), right: true, cell: (model) => formatCards(model.free_milli) },
    { title: t('stranded'), right: true, cell: (model) => formatCards(model.fragment_milli, 2) },
    { title: t('wholeFree'), right: true, cell: (model) => formatNumber(model.whole_free) },
    { title: t('together'), right: true, cell: (model) => formatNumber(model.whole_on_one_node) },
    { title: t('largest'), right: true, minor: true, cell: (model) => formatCards(model.largest_milli, 2) },
  ]
  const sentence = capacity.data && t('fact', { free: formatCards(free), whole: formatNumber(whole) })
  return (
    <Page title={t('title')} sentence={sentence} command="gpupool defrag">
      <div className="grid">
        <Panel title={t('byModel')} hint={t('byModelHint')}>
          <Answer query={capacity}>
            {capacity.isSuccess && models.length === 0 && <Empty>{t('noCards')}</Empty>}
            {models.length > 0 && (
              <Table label={t('byModel')} columns={columns} rows={models} rowKey={(model) => model.model} />
            )}
          </Answer>
        </Panel>
        <Planner />
      </div>
    </Page>
  )
}

function FreeBar({ model }: { model: Model }) {
  const { t } = useTranslation('defrag')
  const total = Math.max(1, model.cards * 1000)
  const whole = model.whole_free * 1000
  const stranded = Math.max(0, Math.min(model.free_milli - whole, model.fragment_milli ?? 0))
  const pieces: Piece[] = [
    { width: whole, kind: 'mine', label: t('wholeFree') },
    { width: stranded, kind: 'stranded', label: t('stranded') },
  ]
  return (
    <ShareBar
      height={12}
      total={total}
      pieces={pieces}
      label={t('freeBar', {
        model: model.model,
        whole: formatNumber(model.whole_free),
        stranded: formatCards(model.fragment_milli, 2),
      })}
    />
  )
}

function Planner() {
  const { t } = useTranslation('defrag')
  const client = useQueryClient()
  const [goal, setGoal] = useState<Goal>('defrag')
  const [limits, setLimits] = useState<Limits>(NO_LIMITS)
  const [isApplying, setApplying] = useState(false)
  const [moved, setMoved] = useState<Moved | null>(null)
  const faults = findFaults(limits)
  const plan = useMutation({
    mutationFn: async (): Promise<Plan> =>
      goal === 'defrag'
        ? { goal, plan: await send<DefragPlan>('POST', '/api/v1/defrag/plan', makeDefragBody(limits)) }
        : { goal, plan: await send<RebalancePlan>('POST', '/api/v1/rebalance/plan', makeMoveLimits(limits)) },
    onSuccess: () => setMoved(null),
  })
  const found = plan.data?.goal === goal ? plan.data : undefined
  const moves = found?.plan.moves ?? []
  const field = (name: keyof Limits) => (
    <TextInput
      key={name}
      className="third"
      label={t(`field.${name}`)}
      placeholder={t(name === 'cards' ? 'asMany' : 'noLimit')}
      inputMode="decimal"
      value={limits[name]}
      error={faults.has(name) ? t('wrong') : undefined}
      onChange={(event) => setLimits({ ...limits, [name]: event.currentTarget.value })}
    />
  )
  const fields: (keyof Limits)[] =
    goal === 'defrag'
      ? ['cards', 'blocks', 'maxMoves', 'maxPerTenant', 'maxLostHours']
      : ['maxMoves', 'maxPerTenant', 'maxLostHours']
  return (
    <Panel
      title={t('plan')}
      hint={t('planHint')}
      right={
        <SegmentedControl
          size="xs"
          aria-label={t('goal')}
          data={(['defrag', 'rebalance'] as const).map((value) => ({ value, label: t(`goal.${value}`) }))}
          value={goal}
          onChange={(value) => setGoal(value as Goal)}
        />
      }
    >
      <form
        className="form"
        onSubmit={(event) => {
          event.preventDefault()
          plan.mutate()
        }}
      >
        <p className="small sub">{t(`goalText.${goal}`)}</p>
        <div className="row wrap fields-row">{fields.map(field)}</div>
        <div className="row wrap">
          <Button size="sm" type="submit" loading={plan.isPending} disabled={faults.size > 0}>
            {t('makePlan')}
          </Button>
          {moves.length > 0 && moved === null && (
            <Button size="sm" className="danger" variant="outline" onClick={() => setApplying(true)}>
              {t('apply', { count: moves.length })}
            </Button>
          )}
        </div>
        {plan.isError && <Refusal error={plan.error} />}
      </form>
      <div role="status" className="gap">
        {found && moves.length === 0 && <Empty>{t('nothing', { count: found.plan.movable })}</Empty>}
        {found && moves.length > 0 && <Outcome found={found} />}
        {moved && <p className="strong">{t('moving', { moving: moved.moving.length, ended: moved.ended.length })}</p>}
      </div>
      {isApplying && found && (
        <FormDialog
          title={t('applyTitle')}
          confirm={t('applyNow', { count: moves.length })}
          danger
          act={() => send<Moved>('POST', '/api/v1/defrag/moves', makeMovesBody(moves))}
          onDone={(answer) => {
            setApplying(false)
            setMoved(answer)
            void client.invalidateQueries({ queryKey: ['capacity'] })
          }}
          onClose={() => setApplying(false)}
        >
          {() => (
            <>
              <dl className="facts left">
                {sumByTenant(moves).map((sum) => (
                  <Fact key={sum.tenant} name={sum.tenant}>
                    {t('loses', { count: sum.jobs, time: formatDuration(sum.lostSeconds) })}
                  </Fact>
                ))}
              </dl>
              <p className="small">{t('applyText')}</p>
            </>
          )}
        </FormDialog>
      )}
    </Panel>
  )
}

function Outcome({ found }: { found: Plan }) {
  const { t } = useTranslation('defrag')
  const { plan } = found
  const columns: Column<Move>[] = [
    { title: t('job'), cell: (move) => <span className="strong">{move.name || move.job}</span> },
    { title: t('tenant'), cell: (move) => <Tenant name={move.tenant} /> },
    { title: t('from'), cell: (move) => <span className="word">{move.from_devices.join(', ')}</span> },
    { title: t('to'), cell: (move) => <span className="word">{move.devices.join(', ')}</span> },
    { title: t('lost'), right: true, cell: (move) => formatDuration(move.lost_seconds) },
  ]
  const pair = ([before, after]: readonly [number, number] | readonly number[]) =>
    t('pair', { before: formatNumber(before), after: formatNumber(after) })
  return (
    <>
      <dl className="facts left">
        {found.goal === 'defrag' ? (
          <>
            <Fact name={t('wholeCards')}>{pair(found.plan.whole_cards as number[])}</Fact>
            <Fact name={t('wholeNodes')}>{pair(found.plan.whole_nodes as number[])}</Fact>
            <Fact name={t('blocks')}>{pair(found.plan.blocks as number[])}</Fact>
            <Fact name={t('by')}>
              <span lang="en">{found.plan.by}</span>
            </Fact>
          </>
        ) : (
          <>
            <Fact name={t('highest')}>
              {t('pair', {
                before: formatCards(found.plan.before.highest_milli, 2),
                after: formatCards(found.plan.after.highest_milli, 2),
              })}
            </Fact>
            <Fact name={t('even')}>
              {t('pair', {
                before: formatPercent(found.plan.before.jain),
                after: formatPercent(found.plan.after.jain),
              })}
            </Fact>
          </>
        )}
        <Fact name={t('lostAll')}>{formatDuration(plan.lost_seconds)}</Fact>
        <Fact name={t('reserved')}>{formatNumber(plan.reserved.cards)}</Fact>
      </dl>
      <div className="gap">
        <Table label={t('moves')} columns={columns} rows={plan.moves} rowKey={(move) => move.job} />
      </div>
    </>
  )
}
