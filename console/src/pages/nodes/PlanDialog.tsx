// What adopting, draining or releasing cards would do, before it is done.
import { Button, Modal } from '@mantine/core'
import { useMutation, useQueries, useQueryClient } from '@tanstack/react-query'
import { useTranslation } from 'react-i18next'
import { request } from '../../api/client'
import { Refusal } from '../../ui/Refusal'
import { type Act, changeCards, type PoolCard } from './fleet'

/** Cards whose shares are asked for one by one; of more, only the number of shares is shown. */
const MOST_ASKED = 16

interface CardShare {
  job: string | null
  name: string | null
}

interface PlanDialogProps {
  readonly act: Act
  readonly cards: readonly PoolCard[]
  onClose(done: boolean): void
}

const TITLES: Record<Act, string> = { adopt: 'planAdopt', drain: 'planDrain', release: 'planRelease' }
const CONFIRMATIONS: Record<Act, string> = {
  adopt: 'confirmAdopt',
  drain: 'confirmDrain',
  release: 'confirmRelease',
}

export function PlanDialog({ act, cards, onClose }: PlanDialogProps) {
  const { t } = useTranslation('nodes')
  const client = useQueryClient()
  const change = useMutation({
    mutationFn: () =>
      changeCards(
        act,
        cards.map((card) => card.name),
      ),
    onSuccess: async () => {
      await client.invalidateQueries({ queryKey: ['devices'] })
      onClose(true)
    },
  })
  const title = TITLES[act]
  const held = cards.reduce((sum, card) => sum + card.shares, 0)
  return (
    <Modal
      opened
      onClose={() => onClose(false)}
      title={t(title)}
      closeButtonProps={{ 'aria-label': t('close') }}
      returnFocus
    >
      <p className="small">{t(`${title}Text`)}</p>
      <p className="small strong nodes-named">{cards.map((card) => card.name).join(', ')}</p>
      {act !== 'adopt' && <HeldShares cards={cards} held={held} />}
      {act === 'release' && held > 0 && <p className="small nodes-refused">{t('planRefused')}</p>}
      {change.isError && <Refusal error={change.error} />}
      <div className="row nodes-buttons">
        <Button size="sm" loading={change.isPending} onClick={() => change.mutate()}>
          {t(CONFIRMATIONS[act], { count: cards.length })}
        </Button>
        <Button size="sm" variant="default" onClick={() => onClose(false)}>
          {t('cancel')}
        </Button>
      </div>
    </Modal>
  )
}

function HeldShares({ cards, held }: { cards: readonly PoolCard[]; held: number }) {
  const { t } = useTranslation('nodes')
  const holding = cards.filter((card) => card.shares > 0).slice(0, MOST_ASKED)
  const answers = useQueries({
    queries: holding.map((card) => ({
      queryKey: ['map', 'shares', card.name],
      queryFn: () => request<CardShare[]>(`/api/v1/devices/${encodeURIComponent(card.name)}/shares`),
    })),
  })
  const lines = answers.flatMap((answer, place) =>
    (answer.data ?? []).map((share) => t('planJob', { name: share.name ?? t('aJobOf'), card: holding[place]?.name })),
  )
  if (held === 0) return <p className="small sub">{t('planNoJobs')}</p>
  return (
    <>
      <p className="small">{t('planShares', { count: held })}</p>
      <ul className="small sub nodes-plan">
        {lines.map((line, place) => (
          // biome-ignore lint/suspicious/noArrayIndexKey: jobs of other tenants have no name.
          <li key={place}>{line}</li>
        ))}
      </ul>
    </>
  )
}
