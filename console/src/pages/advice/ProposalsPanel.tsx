// What policies propose for running jobs: apply it, or let a policy leave the family alone.
import { Button } from '@mantine/core'
import { useQuery, useQueryClient } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { useState } from 'react'
import { useTranslation } from 'react-i18next'
import { request } from '../../api/client'
import { send } from '../../api/lists'
import { mayChangeOf, useSession } from '../../app/session'
import { FormDialog } from '../../ui/FormDialog'
import { formatCards, formatShare } from '../../ui/format'
import { Empty, Panel } from '../../ui/Page'
import { Refusal } from '../../ui/Refusal'
import { type Column, Table } from '../../ui/Table'
import { type Advice, isNamable, listProposals, makeSilence, type Policy, type Proposal, sumFreed } from './advice'
import { ResizeAll } from './ResizeAll'

const POLICIES = '/api/v1/advice/policies'

export function ProposalsPanel({ families }: { families: readonly Advice[] }) {
  const { t } = useTranslation('advice')
  const client = useQueryClient()
  const session = useSession().data
  const mayManage = session?.permissions.includes('manage-tenant') ?? false
  const [applied, setApplied] = useState<readonly Proposal[] | null>(null)
  const [silenced, setSilenced] = useState<Advice | null>(null)
  const proposals = listProposals(families)
  const own = proposals.filter(({ resize }) => mayChangeOf(resize.run.user, session))
  const renew = () => void client.invalidateQueries({ queryKey: ['advice'] })
  const columns: Column<Proposal>[] = [
    {
      title: t('job'),
      cell: ({ family, resize }) => (
        <>
          <Link className="link strong word" to={'/jobs/$job' as never} params={{ job: resize.run.job } as never}>
            {resize.run.name}
          </Link>
          <br />
          <span className="small sub word">{`${family.tenant} / ${family.project} / ${resize.run.user}`}</span>
        </>
      ),
    },
    {
      title: t('hasNow'),
      right: true,
      minor: true,
      cell: ({ resize: { run } }) => <span className="nowrap">{formatShare(run.gpu_milli, run.memory_bytes)}</span>,
    },
    {
      title: t('proposed'),
      right: true,
      cell: ({ resize: { run, body } }) => (
        <span className="nowrap strong">
          {formatShare(body.gpu_milli ?? run.gpu_milli, body.memory_bytes ?? run.memory_bytes)}
        </span>
      ),
    },
    {
      title: '',
      cell: (proposal) => (
        <span className="row wrap">
          {own.includes(proposal) && (
            <Button
              size="compact-xs"
              variant="default"
              aria-label={`${t('apply')} ${proposal.resize.run.name}`}
              onClick={() => setApplied([proposal])}
            >
              {t('apply')}
            </Button>
          )}
          {mayManage && isNamable(proposal.family) && (
            <Button
              size="compact-xs"
              variant="default"
              aria-label={`${t('dismiss')} ${proposal.resize.run.name}`}
              onClick={() => setSilenced(proposal.family)}
            >
              {t('dismiss')}
            </Button>
          )}
        </span>
      ),
    },
  ]
  const all = own.length > 1 && (
    <Button size="xs" onClick={() => setApplied(own)}>
      {t('applyAll', { count: own.length })}
    </Button>
  )
  const hint =
    proposals.length > 0 ? t('proposalsFree', { cards: formatCards(sumFreed(proposals), 2) }) : t('proposalsHint')
  return (
    <Panel title={t('proposals')} hint={hint} right={all}>
      {proposals.length === 0 && (
        <Empty>
          {t('noProposals')}{' '}
          <code className="mono">gpupool advise policy set --mode propose --when running --dry-run</code>
        </Empty>
      )}
      {proposals.length > 0 && (
        <Table
          label={t('proposals')}
          columns={columns}
          rows={proposals}
          rowKey={(proposal) => proposal.resize.run.job}
        />
      )}
      {applied && (
        <ResizeAll
          title={t('applyTitle', { count: applied.length })}
          resizes={applied.map((proposal) => proposal.resize)}
          onDone={renew}
          onClose={() => setApplied(null)}
        />
      )}
      {silenced && (
        <SilenceDialog
          family={silenced}
          onDone={() => {
            setSilenced(null)
            renew()
          }}
          onClose={() => setSilenced(null)}
        />
      )}
    </Panel>
  )
}

/** A policy that is off for one family: its proposals lapse, and its next jobs get what they ask for. */
function SilenceDialog({ family, onDone, onClose }: { family: Advice; onDone: () => void; onClose: () => void }) {
  const { t } = useTranslation('advice')
  const policies = useQuery({ queryKey: ['advice', 'policies'], queryFn: () => request<Policy[]>(POLICIES) })
  return (
    <FormDialog
      title={t('dismissTitle', { family: family.pattern })}
      confirm={t('dismissNow', { family: family.pattern })}
      isReady={policies.isSuccess}
      act={() => send('PUT', POLICIES, makeSilence(family, policies.data ?? []))}
      onDone={onDone}
      onClose={onClose}
    >
      {() => (
        <>
          {policies.isError && <Refusal error={policies.error} />}
          <p>{t('dismissText', { family: family.pattern, owner: `${family.tenant} / ${family.project}` })}</p>
          <p className="small sub">
            {t('dismissHint')} <code className="mono">gpupool advise policy list</code>
          </p>
        </>
      )}
    </FormDialog>
  )
}
