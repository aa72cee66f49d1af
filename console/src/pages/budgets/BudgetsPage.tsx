// Budgets: what is spent, when it runs out, what happens then; and the prices that they are counted by.
import { Button } from '@mantine/core'
import { useQuery, useQueryClient } from '@tanstack/react-query'
import { useState } from 'react'
import { useTranslation } from 'react-i18next'
import { apiPath, send } from '../../api/lists'
import { useSession } from '../../app/session'
import { Answer } from '../../ui/Answer'
import { FormDialog } from '../../ui/FormDialog'
import { formatClock, formatNumber } from '../../ui/format'
import { Empty, Fact, Page, Panel } from '../../ui/Page'
import { Sections } from '../../ui/Sections'
import { BudgetCard, useAmount } from './BudgetCard'
import { BudgetDialog } from './BudgetDialog'
import { type Budget, findFirstOut, listBudgets } from './budgets'
import { Prices } from './Prices'
import './budgets.css'

export function BudgetsPage() {
  const { t } = useTranslation('budgets')
  const session = useSession().data
  const budgets = useQuery({ queryKey: ['budgets'], queryFn: listBudgets })
  const mayChange = session?.permissions.includes('manage-pool') ?? false
  const sections = [
    {
      name: 'budgets',
      label: t('budgets'),
      content: () => (
        <Answer query={budgets}>
          {budgets.data && <BudgetList budgets={budgets.data} mayChange={mayChange} tenant={session?.tenant ?? ''} />}
        </Answer>
      ),
    },
    { name: 'prices', label: t('prices'), content: () => <Prices /> },
  ]
  return (
    <Page title={t('title')} sentence={useFact(budgets.data)} command="gpupool budget list">
      <Sections label={t('title')} sections={sections} />
    </Page>
  )
}

function useFact(budgets: readonly Budget[] | undefined): string {
  const { t } = useTranslation('budgets')
  if (budgets === undefined) return ''
  if (budgets.length === 0) return t('factNone')
  const held = budgets.filter((budget) => budget.on_hold).length
  const first = findFirstOut(budgets)
  const out = first && {
    owner: nameOwner(first),
    when: formatClock(first.forecast?.runs_out_ns),
  }
  const count = t('fact', { count: budgets.length, held: formatNumber(held) })
  return out ? `${count} ${t('factOut', out)}` : count
}

/** Tenant, project and user of a budget, as the CLI writes them. */
const nameOwner = (budget: Budget): string =>
  [budget.tenant, budget.project, budget.user].filter((word) => word !== null).join(' / ')

interface BudgetListProps {
  readonly budgets: readonly Budget[]
  readonly mayChange: boolean
  readonly tenant: string
}

type Open = { act: 'put'; budget: Budget | null } | { act: 'delete'; budget: Budget }

function BudgetList({ budgets, mayChange, tenant }: BudgetListProps) {
  const { t } = useTranslation('budgets')
  const client = useQueryClient()
  const amount = useAmount()
  const [open, setOpen] = useState<Open | null>(null)
  const close = () => setOpen(null)
  const done = () => {
    close()
    void client.invalidateQueries({ queryKey: ['budgets'] })
  }
  const create = (
    <Button size="xs" onClick={() => setOpen({ act: 'put', budget: null })}>
      {t('newBudget')}
    </Button>
  )
  return (
    <div className="grid">
      {mayChange && budgets.length > 0 && <div className="row">{create}</div>}
      {budgets.length === 0 && (
        <Panel>
          <Empty action={mayChange && create}>{t(mayChange ? 'noBudgets' : 'noBudgetsHere')}</Empty>
        </Panel>
      )}
      {budgets.map((budget) => (
        <BudgetCard
          key={budget.id}
          budget={budget}
          owner={nameOwner(budget)}
          acts={
            mayChange && (
              <span className="acts">
                <Button
                  size="compact-xs"
                  variant="default"
                  aria-label={`${t('change')} ${nameOwner(budget)}`}
                  onClick={() => setOpen({ act: 'put', budget })}
                >
                  {t('change')}
                </Button>
                <Button
                  size="compact-xs"
                  variant="default"
                  aria-label={`${t('delete')} ${nameOwner(budget)}`}
                  onClick={() => setOpen({ act: 'delete', budget })}
                >
                  {t('delete')}
                </Button>
              </span>
            )
          }
        />
      ))}
      {open?.act === 'put' && <BudgetDialog budget={open.budget} tenant={tenant} onDone={done} onClose={close} />}
      {open?.act === 'delete' && (
        <FormDialog
          title={t('deleteTitle', { owner: nameOwner(open.budget) })}
          confirm={t('deleteNow')}
          danger
          act={() => send('DELETE', apiPath('budgets', open.budget.id))}
          onDone={done}
          onClose={close}
        >
          {() => (
            <>
              <dl className="facts left">
                <Fact name={t('amount')}>{amount(open.budget, open.budget.amount)}</Fact>
                <Fact name={t('spent')}>{amount(open.budget, open.budget.spent)}</Fact>
              </dl>
              <p className="small">{t(open.budget.on_hold ? 'deleteHeld' : 'deleteText')}</p>
            </>
          )}
        </FormDialog>
      )}
    </div>
  )
}
